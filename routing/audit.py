"""Whether the index is right: what it said of a prompt against what the engine then found.

An engine that finds less than the index has need not prove it wrong: blocks may have been evicted between the look and
the engine's own, and then their removal is announced. A block that was not found and whose removal is not announced,
although nothing of the stream is missing, is a phantom: the index has what the engine has not.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from routing.changes import Change, Drop, Wipe
from routing.types import BlockHash, EngineId, Tier


class Verdict(Enum):
    """What an answer says of the index."""

    CONFIRMED = "confirmed"
    """the engine found what the index had, or more"""
    EVICTED = "evicted"
    """it found less; what was missing was removed meanwhile, and that was announced"""
    PHANTOM = "phantom"
    """it found less, and nothing says why"""


class Sample(NamedTuple):
    """One answer, and what the index had said."""

    missing: BlockHash | None
    """the first block that the index had and the engine did not find"""
    since: float
    """when the index was asked, or earlier"""
    until: float
    """when the answer ended"""


@dataclass(slots=True)
class _Engine:
    pending: deque[Sample] = field(default_factory=deque)
    judged: deque[bool] = field(default_factory=deque)
    """the last samples: whether there was a phantom"""
    dropped: deque[tuple[float, Sequence[BlockHash] | None]] = field(default_factory=deque)
    """what left the GPU lately, and when; None: everything"""
    known_since: float = float("-inf")
    """what was dropped before is not known any more"""
    rebuilt: bool = False


class Audit:
    """Judges samples once their stream has said all that there is to say about their time.

    window: answers looked back on; enough of them must have been judged.
    level: share of phantoms among them from which an engine's index has to be rebuilt.
    least: phantoms below which it is not.
    grace: seconds that an event may be under way.
    memory: seconds for which it is remembered what was dropped; samples that took longer are not judged.
    """

    def __init__(
        self, *, window: int = 50, level: float = 0.1, least: int = 3, grace: float = 1.0, memory: float = 120.0
    ) -> None:
        self._window = window
        self._level = level
        self._least = least
        self._grace = grace
        self._memory = memory
        self._engines: dict[EngineId, _Engine] = {}

    def took_in(self, engine: EngineId, changes: Sequence[Change], now: float) -> None:
        """The index took in what the engine's events changed."""
        known = self._engines.setdefault(engine, _Engine())
        for change in changes:
            match change:
                case Drop(Tier.GPU, blocks):
                    known.dropped.append((now, blocks))
                case Wipe(Tier.GPU | None):
                    known.dropped.append((now, None))
        while known.dropped and known.dropped[0][0] < now - self._memory:
            known.known_since = known.dropped.popleft()[0]

    def sample(
        self, engine: EngineId, blocks: Sequence[BlockHash], expected: int, found: int, since: float, until: float
    ) -> None:
        """An answer came. Does nothing for an engine whose events are not taken in here.

        blocks: the prompt's; expected: how many leading ones the index had in the GPU and the engine could use;
        found: how many the engine reports, wherever it found them.
        """
        known = self._engines.get(engine)
        if known is not None and expected:
            missing = blocks[found] if found < expected else None
            known.pending.append(Sample(missing, since, until))
            while len(known.pending) > self._window:
                known.pending.popleft()

    def confirmed(self, engine: EngineId, at: float) -> Sequence[Verdict]:
        """Nothing that the engine said before `at` is missing. Returns the verdicts that this allows."""
        known = self._engines.get(engine)
        verdicts: list[Verdict] = []
        while known and known.pending and known.pending[0].until + self._grace < at:
            sample = known.pending.popleft()
            if sample.since <= known.known_since:
                continue
            verdicts.append(_verdict(sample, known.dropped))
            known.judged.append(verdicts[-1] is Verdict.PHANTOM)
            if len(known.judged) > self._window:
                known.judged.popleft()
        return verdicts

    def must_rebuild(self, engine: EngineId) -> bool:
        """Whether to rebuild now. True once; again only after the engine's index was right for a whole window."""
        known = self._engines.get(engine)
        if known is None:
            return False
        phantoms = sum(known.judged)
        drifted = phantoms >= self._least and phantoms >= self._level * len(known.judged)
        if known.rebuilt:
            known.rebuilt = drifted or len(known.judged) < self._window
            return False
        if drifted:
            known.rebuilt = True
            known.pending.clear()
            known.judged.clear()
        return drifted

    def forget(self, engine: EngineId) -> None:
        """The engine left."""
        self._engines.pop(engine, None)


def _verdict(sample: Sample, dropped: deque[tuple[float, Sequence[BlockHash] | None]]) -> Verdict:
    if sample.missing is None:
        return Verdict.CONFIRMED
    for at, blocks in reversed(dropped):
        if at < sample.since:
            break
        if blocks is None or sample.missing in blocks:
            return Verdict.EVICTED
    return Verdict.PHANTOM
