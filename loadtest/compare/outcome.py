"""What one router made of one workload."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

GOOD_TTFT = 2.0
"""seconds"""
GOOD_ITL = 0.05
"""seconds"""


class Asked(NamedTuple):
    """One request, as its client saw it."""

    number: int
    """its position in the trace"""
    prompt: int
    """tokens"""
    cached: int
    """prompt tokens that the replica reports as found in its cache"""
    ttft: float | None
    """seconds from sending to the first token; None if it was not answered"""
    itl: float
    """mean seconds between two tokens; 0 for a single one"""

    @property
    def good(self) -> bool:
        """Answered soon and fluently."""
        return self.ttft is not None and self.ttft <= GOOD_TTFT and self.itl <= GOOD_ITL


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run, without its warm-up."""

    router: str
    load: float
    """of the fleet's capacity, offered"""
    seed: int
    asked: Sequence[Asked]
    computed: Sequence[Sequence[int]]
    """prompt tokens that each replica computed, in each of some equal parts of the time"""


def hit_ratio(asked: Sequence[Asked]) -> float:
    """Share of prompt tokens found in caches, of what was answered."""
    answered = [one for one in asked if one.ttft is not None]
    return sum(one.cached for one in answered) / max(1, sum(one.prompt for one in answered))


def ttft(asked: Sequence[Asked], percent: float) -> float:
    """A percentile in seconds; who was not answered waits for ever."""
    waits = sorted(float("inf") if one.ttft is None else one.ttft for one in asked)
    return percentile(waits, percent)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """ordered: ascending, at least one. percent: 0-100."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def good(asked: Sequence[Asked]) -> float:
    """Share of requests that were."""
    return sum(one.good for one in asked) / max(1, len(asked))


def max_over_mean(outcome: Outcome) -> float:
    """Of the prompt tokens that each replica computed; 1 where nothing was."""
    totals = [sum(column) for column in zip(*outcome.computed, strict=True)]
    return max(totals) * len(totals) / sum(totals) if sum(totals) else 1.0
