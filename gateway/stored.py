"""Which replica keeps which answer: an engine finds only what it stored itself."""

from collections import OrderedDict

from routing.types import ReplicaId

REMEMBERED = 100_000
"""Answers, about 20 MB; the oldest are forgotten first."""
LONGEST = 256
"""Letters of an id: vLLM lets a client make one up, of any length."""
PATH = "/v1/responses"


class StoredAnswers:
    """The ids of answers that may be asked for again, and where they are."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._replicas: OrderedDict[str, ReplicaId] = OrderedDict()

    def store(self, id: str, replica: ReplicaId) -> None:
        """The replica gave an answer of this id. One that is too long is not remembered."""
        if len(id) > LONGEST:
            return
        self._replicas[id] = replica
        self._replicas.move_to_end(id)
        if len(self._replicas) > self._remembered:
            self._replicas.popitem(last=False)

    def holder(self, id: str | None) -> ReplicaId | None:
        """Who gave it; None for an id that nobody is known to have given."""
        return self._replicas.get(id) if id is not None else None


def stored_id(path: str, previous: str | None) -> str | None:
    """The id of the answer that a request is about, if it is about one.

    path: `/v1/responses/{id}` or what lies below. previous: the body's `previous_response_id`.
    """
    if path.startswith(PATH + "/"):
        return path.removeprefix(PATH + "/").split("/", 1)[0]
    return previous if path == PATH else None
