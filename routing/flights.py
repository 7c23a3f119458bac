"""Single flight: prompts whose next part nobody holds follow the first of them, instead of being computed twice."""

from collections.abc import Sequence
from typing import NamedTuple

from routing.decision import RouteRequest
from routing.pricing import Matches
from routing.shared import SharedPrefix
from routing.types import BlockHash, EngineId, ReplicaId

_FOLLOWERS = 16
"""that go after one request; a crowd is for the cost to spread"""


class _Flight(NamedTuple):
    replica: ReplicaId
    until: float
    followers: int


class Flights:
    """Which replica computes which beginning of a prompt that is stored nowhere.

    Two replicas that compute the same at a time do the work twice, and LMCache lets both write the same temporary file.
    """

    def __init__(self, window: float) -> None:
        """window: seconds that a first request is followed; 0 for never."""
        self._window = window
        self._flights: dict[BlockHash, _Flight] = {}

    def follow(self, start: BlockHash | None, now: float) -> ReplicaId | None:
        """Where the same beginning is being computed; None if it is not, or enough have followed."""
        flight = self._flights.get(start) if start is not None else None
        if start is None or flight is None or flight.until < now or flight.followers >= _FOLLOWERS:
            return None
        self._flights[start] = flight._replace(followers=flight.followers + 1)
        return flight.replica

    def begin(self, start: BlockHash | None, engine: EngineId, now: float) -> None:
        """It was decided where the beginning will be computed."""
        if start is None or not self._window:
            return
        known = self._flights.pop(start, None)
        if known is None or known.until < now or known.replica != engine.replica:
            known = _Flight(engine.replica, now + self._window, 0)
        self._flights[start] = known
        for old in [start for start, flight in self._flights.items() if flight.until < now][:8]:
            del self._flights[old]


def unstored_start(request: RouteRequest, matches: Matches, shared: Sequence[SharedPrefix]) -> BlockHash | None:
    """The end of the first chunk of a prompt that no engine holds and that is not stored; None without such a chunk.

    Of requests with one prompt; its name stands for all tokens up to there.
    """
    if len(shared) != 1:
        return None
    (prompt,), (match,), (stored,) = request.prompts, matches, shared
    for space, blocks in prompt.chains.items():
        size = space.block_size
        if stored.chunk < size or stored.chunk % size:
            continue
        held = max((found.l1 for found in match.values()), default=0) * size
        end = (max(held, stored.tokens) // stored.chunk + 1) * stored.chunk
        return blocks[end // size - 1] if end // size <= len(blocks) else None
    return None
