"""Made-up workloads of the kinds that a fleet meets, as traces: who shares what with whom, and when."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from random import Random
from types import MappingProxyType

from loadtest.traces.trace import Trace, TraceRequest

BLOCK_SIZE = 64
"""tokens"""


@dataclass(frozen=True, slots=True)
class Mix:
    """How much there is of what. Lengths are tokens, drawn between half and one and a half times the figure."""

    requests: int = 1_000
    per_second: float = 4.0
    """arrivals of users, a Poisson process"""
    system: int = 1_024
    """the system prompts; agents' come with their tools"""
    systems: int = 4
    question: int = 256
    output: int = 128
    turns: int = 6
    """requests of one user, for kinds that have turns"""
    pause: float = 8.0
    """mean seconds before a user's, or a tool's, next message"""
    documents: int = 64
    document: int = 2_048
    retrieved: int = 3
    """documents in one prompt"""


class _Ids:
    """Ids for blocks; equal pieces after equal pieces have equal ids."""

    def __init__(self) -> None:
        self._next = count(1)
        self._known: dict[tuple[int, object, int], int] = {}

    def chain(self, pieces: Sequence[tuple[object, int]]) -> tuple[list[int], int]:
        """pieces: name and tokens of each. Returns the chain's ids and its tokens.

        A block belongs to the piece in which it ends: what follows must be equal for it to be so, too.
        """
        blocks: list[int] = []
        tokens = 0
        for name, length in pieces:
            tokens += length
            while len(blocks) * BLOCK_SIZE + BLOCK_SIZE <= tokens:
                blocks.append(self._id(blocks[-1] if blocks else 0, name, len(blocks)))
        if tokens % BLOCK_SIZE:
            blocks.append(self._id(blocks[-1] if blocks else 0, pieces[-1][0], len(blocks)))
        return blocks, tokens

    def _id(self, parent: int, name: object, position: int) -> int:
        key = (parent, name, position)
        if key not in self._known:
            self._known[key] = next(self._next)
        return self._known[key]


Piece = tuple[object, int]
Kind = Callable[[Random, Mix, int], Iterator[Sequence[Piece]]]
"""random, mix, user's number -> the prompts of a user, one for each turn, as pieces"""


def _length(random: Random, mean: int) -> int:
    return max(1, round(mean * random.uniform(0.5, 1.5)))


def _system(mix: Mix, number: int) -> Piece:
    return ("system", number % mix.systems), mix.system + 37 * (number % mix.systems)


def _shared_prompt(random: Random, mix: Mix, user: int) -> Iterator[Sequence[Piece]]:
    yield [_system(mix, random.randrange(mix.systems)), (("question", user), _length(random, mix.question))]


def _multi_turn(random: Random, mix: Mix, user: int) -> Iterator[Sequence[Piece]]:
    said = [_system(mix, user)]
    for turn in range(mix.turns):
        said.append((("question", user, turn), _length(random, mix.question)))
        yield list(said)
        said.append((("answer", user, turn), mix.output))


def _rag(random: Random, mix: Mix, user: int) -> Iterator[Sequence[Piece]]:
    # Popularity by Zipf's law. The best match comes last, so prompts share a prefix less often than documents.
    weights = [1 / (rank + 1) for rank in range(mix.documents)]
    found = sorted(set(random.choices(range(mix.documents), weights, k=mix.retrieved)))
    documents: list[Piece] = [(("document", one), mix.document + 11 * (one % 7)) for one in found]
    yield [_system(mix, 0), *documents, (("question", user), _length(random, mix.question))]


def _agent(random: Random, mix: Mix, user: int) -> Iterator[Sequence[Piece]]:
    said: list[Piece] = [
        (("tools", user % mix.systems), 4 * mix.system),
        (("task", user), _length(random, mix.question)),
    ]
    for turn in range(mix.turns):
        yield list(said)
        said.append((("call", user, turn), mix.output))
        said.append((("result", user, turn), _length(random, 4 * mix.question)))


def _unique(random: Random, mix: Mix, user: int) -> Iterator[Sequence[Piece]]:
    yield [(("prompt", user), _length(random, mix.system + mix.question))]


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "shared-prompt": _shared_prompt,
        "multi-turn": _multi_turn,
        "rag": _rag,
        "agent": _agent,
        "unique": _unique,
    }
)
"""One system prompt of a few and a question; chats; documents that many ask about; tool loops; no reuse at all."""


def generate(kind: str, mix: Mix, seed: int) -> Trace:
    """The same trace for the same arguments. Turns follow one another's answers: a closed loop for each user.

    kind: a name in `KINDS`.
    """
    random = Random(f"{kind} {seed}")
    ids = _Ids()
    timed: list[tuple[float, int, int, list[int], int, float]] = []
    begins = accumulate(iter(lambda: random.expovariate(mix.per_second), None))
    for user, begin in enumerate(begins):
        at = begin
        for turn, pieces in enumerate(KINDS[kind](random, mix, user)):
            pause = random.expovariate(1 / mix.pause) if turn else 0.0
            at += pause
            timed.append((at, user, turn, *ids.chain(pieces), pause))
        if len(timed) >= mix.requests:
            break
    return Trace(kind, BLOCK_SIZE, _linked(sorted(timed)[: mix.requests], random, mix))


def _linked(
    timed: Sequence[tuple[float, int, int, list[int], int, float]], random: Random, mix: Mix
) -> list[TraceRequest]:
    last: dict[int, int] = {}
    requests = []
    for position, (at, user, _, blocks, tokens, pause) in enumerate(timed):
        before = last.get(user)
        requests.append(TraceRequest(at, tokens, _length(random, mix.output), blocks, before, pause))
        last[user] = position
    return requests
