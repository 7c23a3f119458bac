"""What each engine's GPU cache is worth: how many blocks it holds, and how long ago each was used.

An engine gives up the block that was used longest ago. So what a new prompt pushes out there, and what of an engine's
cache is still wanted, follow from when its blocks were last used: by our own routes, and by events of new blocks.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from math import exp, inf
from typing import NamedTuple

from routing.changes import Change, Drop, Put, Wipe
from routing.reuse import ReuseChance
from routing.types import BlockHash, EngineId, Tier

_NEVER = -inf
"""When a block was used that is not held."""


class Occupancy(NamedTuple):
    """How one engine's GPU cache is filled."""

    held: int
    """blocks"""
    fresh: float
    """blocks, each counting less the longer it has been idle"""
    wanted_at_end: float
    """how likely the block that it gives up next would have been used again, 0 to 1"""


class Room:
    """The blocks of all engines with the time of their last use. Not thread-safe: owned by the event loop.

    lifetime: seconds after which an unused block counts 1/e in what is fresh.
    elsewhere: blocks held by an engine whose events another gateway follows; they all count as fresh.
    """

    def __init__(
        self, reuse: ReuseChance, lifetime: float, elsewhere: Callable[[EngineId], int] = lambda engine: 0
    ) -> None:
        self._reuse = reuse
        self._elsewhere = elsewhere
        self._lifetime = lifetime
        self._caches: dict[EngineId, _Cache] = {}

    def apply(self, engine: EngineId, changes: Sequence[Change], now: float) -> None:
        """Take in what a ledger derived from the engine's events, in order."""
        cache = self._caches.get(engine)
        if cache is None:
            cache = self._caches[engine] = _Cache(self._lifetime)
        for change in changes:
            match change:
                case Put(Tier.GPU, blocks):
                    cache.put(blocks, now)
                case Drop(Tier.GPU, blocks):
                    for age, count in cache.drop(blocks, now).items():
                        self._reuse.evicted(age, count)
                case Wipe(tier) if tier in (None, Tier.GPU):
                    self._caches[engine] = cache = _Cache(self._lifetime)

    def use(self, engine: EngineId, blocks: Sequence[BlockHash], now: float) -> None:
        """A prompt that begins with these blocks goes there."""
        cache = self._caches.get(engine)
        if cache is not None:
            for age, count in cache.use(blocks, now).items():
                self._reuse.used(age, count)

    def forget(self, engine: EngineId) -> None:
        """The engine left."""
        self._caches.pop(engine, None)

    def occupancy(self, engine: EngineId, now: float) -> Occupancy:
        """How its GPU cache is filled at the moment."""
        cache = self._caches.get(engine)
        if cache is None:
            held = self._elsewhere(engine)
            return Occupancy(held, float(held), 0.0)
        return Occupancy(len(cache.used), cache.fresh(now), self._reuse.chance(now - cache.oldest(now)))


class _Cache:
    """One engine's blocks. Times only go forward, so `_counts` is in their order."""

    __slots__ = ("_at", "_counts", "_fresh", "_lifetime", "used")

    def __init__(self, lifetime: float) -> None:
        self.used: dict[BlockHash, float] = {}
        self._counts: OrderedDict[float, int] = OrderedDict()
        self._lifetime = lifetime
        self._fresh = 0.0
        self._at = 0.0

    def put(self, blocks: Sequence[BlockHash], now: float) -> None:
        used = self.used
        new = [block for block in blocks if block not in used]
        used.update(dict.fromkeys(new, now))
        self._gain(len(new), now)

    def drop(self, blocks: Sequence[BlockHash], now: float) -> dict[float, int]:
        """Returns how many there were by age."""
        used = self.used
        return self._lose(Counter(map(used.pop, [block for block in blocks if block in used])), now)

    def use(self, blocks: Sequence[BlockHash], now: float) -> dict[float, int]:
        """Returns how many there were by age."""
        used = self.used
        times = Counter(map(used.get, blocks, repeat(_NEVER)))
        if times.pop(_NEVER, 0):
            blocks = [block for block in blocks if block in used]
        ages = self._lose(times, now)
        used.update(zip(blocks, repeat(now)))
        self._gain(len(blocks), now)
        return ages

    def fresh(self, now: float) -> float:
        fresh = self._fresh * exp((self._at - now) / self._lifetime)
        return fresh if fresh > 0.0 else 0.0

    def oldest(self, now: float) -> float:
        """When the block that was used longest ago was used."""
        return next(iter(self._counts), now)

    def _gain(self, count: int, now: float) -> None:
        if count:
            self._decay(now)
            self._fresh += count
            self._counts[now] = self._counts.get(now, 0) + count

    def _lose(self, by_time: Mapping[float, int], now: float) -> dict[float, int]:
        self._decay(now)
        for time, count in by_time.items():
            self._fresh -= count * exp((time - now) / self._lifetime)
            left = self._counts[time] - count
            if left:
                self._counts[time] = left
            else:
                del self._counts[time]
        return {now - time: count for time, count in by_time.items()}

    def _decay(self, now: float) -> None:
        self._fresh *= exp((self._at - now) / self._lifetime)
        self._at = now
