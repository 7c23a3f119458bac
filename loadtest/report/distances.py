"""Stack distances of blocks, exact or sampled: what a least-recently-used cache of any size would have served.

SHARDS (Waldspurger et al., FAST '15) with a bound on the blocks that are kept: a block is looked at if its hash is
below a threshold, which falls as blocks come in. Distances among the sampled blocks stand for distances among all.
"""

import heapq
from collections.abc import Iterable, Sequence
from math import exp, log
from typing import NamedTuple

from loadtest.report.recency import Recency

_ODD = 0x9E3779B97F4A7C15
_SPACE = 1 << 24
_FINENESS = 100
"""steps of distance for each factor of e"""


class Hits(NamedTuple):
    """What one request finds in caches of each size, in estimated blocks."""

    by_step: dict[int, float]
    """by step of the distance at which a block was found: 0 for the most recent one"""
    asked: int
    """blocks that could have been found, exactly"""
    unseen: float
    """how many of them the sample misses, in the mean: hot blocks that it leaves out, less those it overrates"""


class StackDistances:
    """The blocks of a stream of requests in their order of use.

    limit: blocks kept at most, > 0. As long as there are no more, distances are exact but for rounding by 1 %.
    """

    def __init__(self, limit: int, seed: int = 0) -> None:
        self._limit = limit
        self._salt = (seed * _ODD | 1) & (2**64 - 1)
        self._threshold = _SPACE
        self._recency = Recency()
        self._highest: list[tuple[int, int]] = []
        self._used: dict[int, float] = {}
        self._again: set[int] = set()
        self.shared_blocks = 0.0
        """estimated uses of blocks that were asked for more than once, the first ones included"""
        self.reuse_seconds: dict[int, float] = {}
        """estimated reuses by step of the time since the use before"""

    @property
    def rate(self) -> float:
        """Share of the blocks that is looked at now, 0-1."""
        return self._threshold / _SPACE

    def ask(self, wanted: Sequence[int], kept: Iterable[int], at: float) -> Hits:
        """One request. wanted: blocks that it can find; kept: those that the cache has afterwards, in prompt order.

        at: seconds, not decreasing.
        """
        recency, weight = self._recency, 1 / self.rate
        found: dict[int, float] = {}
        looked_at = self._sampled(wanted)
        unseen = len(wanted) - weight * len(looked_at)
        self.shared_blocks += unseen
        for block in looked_at:
            if block not in recency:
                continue
            step = step_of(recency.newer(block) * weight + 1)
            found[step] = found.get(step, 0.0) + weight
            self._reused(block, at, weight)
        # Of one prompt the tail is the first to be evicted, so the first block is the most recent.
        for block in reversed(self._sampled(kept)):
            self._use(block, at)
        return Hits(found, len(wanted), unseen)

    def _sampled(self, blocks: Iterable[int]) -> list[int]:
        salt, below = self._salt, self._threshold
        if below == _SPACE:
            return list(blocks)
        return [block for block in blocks if ((block ^ salt) * _ODD >> 40) % _SPACE < below]

    def _reused(self, block: int, at: float, weight: float) -> None:
        first = block not in self._again
        self._again.add(block)
        self.shared_blocks += weight * (2 if first else 1)
        step = step_of(max(1.0, at - self._used[block]))
        self.reuse_seconds[step] = self.reuse_seconds.get(step, 0.0) + weight

    def _use(self, block: int, at: float) -> None:
        if block not in self._recency:
            place = ((block ^ self._salt) * _ODD >> 40) % _SPACE
            if place >= self._threshold:
                return
            heapq.heappush(self._highest, (-place, block))
        self._recency.use(block)
        self._used[block] = at
        while len(self._recency) > self._limit:
            self._lower()

    def _lower(self) -> None:
        """Leave out the blocks with the highest hash."""
        self._threshold = -self._highest[0][0]
        while self._highest and -self._highest[0][0] >= self._threshold:
            _, block = heapq.heappop(self._highest)
            self._recency.drop(block)
            del self._used[block]
            self._again.discard(block)


def step_of(value: float) -> int:
    """Values of at least 1 in steps of 1 %; small whole numbers have steps of their own."""
    return int(_FINENESS * log(value) + 0.5)


def value_of(step: int) -> float:
    """The middle of a step."""
    return exp(step / _FINENESS)
