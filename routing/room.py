"""What each engine's GPU cache is worth: how many blocks it holds, and how long ago each was used.

An engine gives up the block that was used longest ago. So what a new prompt pushes out there, and what of an engine's
cache is still wanted, follow from when its blocks were last used: by our own routes, and by events of new blocks.
"""

from array import array
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp

from routing.changes import Change, Drop, Put, Wipe
from routing.reuse import ReuseChance
from routing.types import BlockHash, EngineId, Tier

_LEAST = 32
"""Blocks that are worth being moved together. Fewer are looked at one by one, and then are part of a larger use: the
blocks of an answer come one at a time.
"""


Occupancy = tuple[int, float, float]
"""How one engine's GPU cache is filled: how many blocks it holds; how many of them are fresh, each counting less the
longer it has been idle; and how likely the one that it gives up next would have been used again, 0 to 1.

A plain tuple, as one is made of every engine for every decision.
"""


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
        lost: dict[float, int] = {}
        gained = 0
        for change in changes:
            if isinstance(change, Put):
                if change.tier is Tier.GPU:
                    gained += cache.put(change.blocks, now)
            elif isinstance(change, Drop):
                if change.tier is Tier.GPU:
                    cache.drop(change.blocks, lost)
            elif isinstance(change, Wipe) and change.tier in (None, Tier.GPU):
                self._caches[engine] = cache = _Cache(self._lifetime)
                lost.clear()
                gained = 0
        cache.count(gained, lost, now)
        for time, count in lost.items():
            self._reuse.evicted(now - time, count)

    def use(self, engine: EngineId, blocks: Sequence[BlockHash], now: float) -> None:
        """A prompt that begins with these blocks goes there."""
        cache = self._caches.get(engine)
        if cache is not None:
            for time, count in cache.use(blocks, now).items():
                self._reuse.used(now - time, count)

    def forget(self, engine: EngineId) -> None:
        """The engine left."""
        self._caches.pop(engine, None)

    def occupancies(self, engines: Iterable[EngineId], now: float) -> Sequence[Occupancy]:
        """How their GPU caches are filled at the moment, in the engines' order."""
        chance, lifetime = self._reuse.chance, self._lifetime
        filled = []
        for engine in engines:
            cache = self._caches.get(engine)
            if cache is None:
                held = self._elsewhere(engine)
                filled.append((held, float(held), 0.0))
            else:
                fresh = cache.fresh * exp((cache.at - now) / lifetime)
                oldest = next(iter(cache.counts), now)
                filled.append((len(cache.uses), fresh if fresh > 0.0 else 0.0, chance(now - oldest)))
        return filled


class _Use:
    """Blocks of one cache that were used last at the same moment, together."""

    __slots__ = ("count", "time", "whole")

    def __init__(self, time: float, blocks: Sequence[int]) -> None:
        self.time = time
        self.hold(blocks)

    def hold(self, blocks: Sequence[int]) -> None:
        """These are all of them."""
        self.count = len(blocks)
        """how many there still are"""
        self.whole = array("Q", blocks) if len(blocks) >= _LEAST else None
        """they, in their order, while none has left"""

    def lose(self, count: int) -> None:
        """So many have left, whichever they are."""
        self.count -= count
        self.whole = None

    def common(self, prompt: "array[int]", at: int) -> int:
        """How many blocks of a prompt from `at` on are the first of these; 0 where these are no longer whole."""
        ours = self.whole
        if ours is None or ours[0] != prompt[at]:
            return 0
        most = min(len(ours), len(prompt) - at)
        if ours[most - 1] != prompt[at + most - 1]:
            most = bisect_left(range(most), True, key=lambda ahead: ours[ahead] != prompt[at + ahead])
        return most if ours[:most] == prompt[at : at + most] else 0


class _Cache:
    """One engine's blocks. Times only go forward, so `counts` is in their order."""

    __slots__ = ("_lifetime", "at", "counts", "fresh", "uses")

    def __init__(self, lifetime: float) -> None:
        self.uses: dict[int, _Use] = {}
        """the last one of each block"""
        self.counts: OrderedDict[float, int] = OrderedDict()
        """how many were used last at each moment"""
        self.fresh = 0.0
        """how many are fresh, as of `at`"""
        self.at = 0.0
        self._lifetime = lifetime

    def put(self, blocks: Sequence[BlockHash], now: float) -> int:
        """Returns how many of them are new here. To be counted."""
        uses = self.uses
        new = [block for block in blocks if block not in uses]
        self._make(new, now)
        return len(new)

    def drop(self, blocks: Sequence[BlockHash], lost: dict[float, int]) -> None:
        """Adds to `lost` how many of them were here, by the time of their last use. To be counted."""
        uses = self.uses
        for block in blocks:
            use = uses.pop(block, None)
            if use is not None:
                use.lose(1)
                lost[use.time] = lost.get(use.time, 0) + 1

    def use(self, blocks: Sequence[BlockHash], now: float) -> Mapping[float, int]:
        """Returns how many of them are here, by the time of their last use before.

        Blocks that were used together mostly are again, all of them or the first ones. Then that use is moved, or
        divided, without a look at each of them.
        """
        uses = self.uses
        asked = array("Q", blocks)
        before: Counter[float] = Counter()
        again: list[_Use] = []
        apart: list[BlockHash] = []
        at = 0
        while at < len(blocks):
            use = uses.get(blocks[at])
            if use is None:
                at += 1
                continue
            common = use.common(asked, at)
            if common == use.count:
                again.append(use)
            elif common >= _LEAST:
                again.append(self._divided(use, asked[at : at + common]))
            else:
                common = 1
                use.lose(1)
                apart.append(blocks[at])
            before[use.time] += common
            at += common
        for use in again:
            use.time = now
        if apart:
            self._make(apart, now)
        self.count(before.total(), before, now)
        return before

    def count(self, gained: int, lost: Mapping[float, int], now: float) -> None:
        """So many have been used now, and so many, by the time of their last use, no longer count as used then."""
        self.fresh = self.fresh * exp((self.at - now) / self._lifetime) + gained
        self.at = now
        if gained:
            self.counts[now] = self.counts.get(now, 0) + gained
        for time, count in lost.items():
            self.fresh -= count * exp((time - now) / self._lifetime)
            left = self.counts[time] - count
            if left:
                self.counts[time] = left
            else:
                del self.counts[time]

    def _make(self, blocks: Sequence[int], time: float) -> _Use:
        use = _Use(time, blocks)
        self.uses.update(dict.fromkeys(blocks, use))
        return use

    def _divided(self, use: _Use, front: "array[int]") -> _Use:
        """The first blocks of a use as one of their own."""
        assert use.whole is not None
        rest = use.whole[len(front) :]
        if len(front) < len(rest):  # the shorter one is made anew
            use.hold(rest)
            return self._make(front, use.time)
        self._make(rest, use.time)
        use.hold(front)
        return use
