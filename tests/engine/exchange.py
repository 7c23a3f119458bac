"""An answered request and how its prediction fared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from tests.engine.oracle import Change, Held

PUBLISHING = 0.05
"""seconds before a request was sent in which an event may still have been on its way to the gateway: vLLM's last event
of an answer was seen up to 1 ms after the answer's last byte"""


class Verdict(Enum):
    """What became of a prediction."""

    EXACT = "exact"
    RACE_WITH_EVICTION = "race with eviction"
    """predicted blocks were removed while the request was on its way"""
    RACE_WITH_STORE = "race with store"
    """blocks that were not predicted were stored while the request was on its way"""
    UNDER = "less than was found"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One answered request."""

    replica: str
    tokens: tuple[int, ...]
    """the prompt, as the engine itself tokenizes it"""
    predicted: int | None
    """cached tokens, from the response header; None where there was none"""
    reported: int
    """cached tokens, from the usage"""
    sent: float
    ended: float
    """wall clock, seconds"""

    def verdict(self, engines: Sequence[Held]) -> Verdict:
        """Compare prediction and report.

        engines: what the replica's ranks hold, with their histories. A difference counts as a race only if a history
        shows one: for one of the blocks in question, between sending and the answer's end.
        """
        if self.predicted == self.reported:
            return Verdict.EXACT
        if self.predicted is None:
            return Verdict.WRONG
        if self.predicted > self.reported:
            removed = any(not change.stored for change in self._meanwhile(engines, self.reported, self.predicted))
            return Verdict.RACE_WITH_EVICTION if removed else Verdict.WRONG
        stored = any(change.stored for change in self._meanwhile(engines, self.predicted, self.reported))
        return Verdict.RACE_WITH_STORE if stored else Verdict.WRONG

    def _meanwhile(self, engines: Sequence[Held], start: int, end: int) -> Iterator[Change]:
        """What happened to the blocks of tokens [start, end) while the request was on its way."""
        for held in engines:
            if not held.block_size:
                continue
            blocks = set(list(held.chain(self.tokens))[start // held.block_size : end // held.block_size])
            for change in held.history:
                if change.block in blocks and self.sent - PUBLISHING <= change.time <= self.ended:
                    yield change
