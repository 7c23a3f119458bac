"""Blocks that count as held until some moment, in stretches: what prompts have in common is not gone through again.

A block's hash stands for all before it. So prompts that have one block in common have all before it in common, and
where they part is found by bisection.
"""

from bisect import bisect_left
from collections.abc import Iterator, MutableMapping, Sequence, Set
from heapq import heappop, heappush
from itertools import compress, count
from math import inf
from operator import ne

from routing.types import BlockHash, EngineId


class _Stretch:
    """Blocks in a row that count until the same moment. Those of one prompt are one such stretch or several.

    start: where in a prompt the first of them was. ends: a prompt ended with the last of them.
    """

    __slots__ = ("blocks", "ends", "start", "until")

    def __init__(self, blocks: Sequence[BlockHash], start: int, until: float, *, ends: bool) -> None:
        self.blocks = blocks
        self.start = start
        self.until = until
        self.ends = ends

    def common(self, prompt: Sequence[BlockHash], depth: int) -> tuple[int, int]:
        """Given that the prompt's block at `depth` is one of these: which one, and how many are the same from there."""
        ours = self.blocks
        first = self.place(prompt[depth], depth - self.start)
        most = min(len(ours) - first, len(prompt) - depth)
        if ours[first + most - 1] == prompt[depth + most - 1]:
            return first, most
        return first, bisect_left(range(most), True, lo=1, key=lambda at: ours[first + at] != prompt[depth + at])

    def place(self, block: BlockHash, likely: int) -> int:
        """Which of these a block is."""
        ours, last = self.blocks, len(self.blocks) - 1
        if 0 <= likely <= last and ours[likely] == block:
            return likely
        return last if ours[last] == block else ours.index(block)  # evicted is the last first


_Credited = MutableMapping[BlockHash, _Stretch]


class Credits:
    """Which blocks are credited to each engine, and until when they count."""

    def __init__(self) -> None:
        self._of: dict[EngineId, _Credited] = {}
        self._due: list[tuple[float, int, EngineId, _Stretch]] = []
        """a heap: when a stretch ends, unless it is to count for longer by then"""
        self._numbers = count()

    @property
    def engines(self) -> Set[EngineId]:
        """Those that have any, expired ones among them."""
        return self._of.keys()

    def reach(self, engine: EngineId, prompt: Sequence[BlockHash], depth: int, now: float) -> int:
        """How far all blocks of a prompt from `depth` on count. Returns at least `depth`."""
        credited = self._of.get(engine, {})
        while depth < len(prompt) and (stretch := credited.get(prompt[depth])) and stretch.until > now:
            depth += stretch.common(prompt, depth)[1]
        return depth

    def reach_an_end(self, engine: EngineId, prompt: Sequence[BlockHash], depth: int, now: float) -> int:
        """As `reach`, no further than to where a credited prompt ended."""
        credited, at = self._of.get(engine, {}), depth
        while at < len(prompt) and (stretch := credited.get(prompt[at])) and stretch.until > now:
            first, number = stretch.common(prompt, at)
            at += number
            if stretch.ends and first + number == len(stretch.blocks):
                depth = at
        return depth

    def lengthen(self, engine: EngineId, prompt: Sequence[BlockHash], until: float) -> None:
        """The blocks of a prompt count until then, or longer where that was said before."""
        for stretch in self._stretches(engine, prompt):
            if stretch.until < until:
                self._time(engine, stretch, until)

    def set_end(self, engine: EngineId, prompt: Sequence[BlockHash], until: float) -> None:
        """The blocks of a prompt count until then, whatever was said before."""
        for stretch in self._stretches(engine, prompt):
            self._time(engine, stretch, until)

    def settle(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """Those of these blocks that have an end count no more."""
        for stretch, first, number in self._parts(engine, blocks):
            if stretch.until < inf:
                self._drop(engine, stretch, first, first + number)

    def withdraw(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """These blocks count no more."""
        for stretch, first, number in self._parts(engine, blocks):
            self._drop(engine, stretch, first, first + number)

    def expire(self, now: float) -> None:
        """Drop those whose time is over."""
        while self._due and self._due[0][0] <= now:
            until, _, engine, stretch = heappop(self._due)
            there = self._of.get(engine, {}).get(stretch.blocks[0]) if stretch.blocks else None
            if there is stretch and stretch.until == until:
                self._drop(engine, stretch, 0, len(stretch.blocks))

    def forget(self, engine: EngineId) -> None:
        """None of this engine's counts any more."""
        self._of.pop(engine, None)

    def _stretches(self, engine: EngineId, prompt: Sequence[BlockHash]) -> Iterator[_Stretch]:
        """The prompt in stretches of its own: others end and begin where it does. What is new has no time yet."""
        if not prompt:
            return
        at, credited = 0, self._of.setdefault(engine, {})
        while at < len(prompt):
            stretch = credited.get(prompt[at])
            if stretch is None:
                end = _next_credited(credited, prompt, at)
                stretch = self._make(engine, prompt[at:end], at, 0.0, ends=False)
                at = end
            else:
                first, number = stretch.common(prompt, at)
                stretch, at = self._cut(engine, stretch, first, number), at + number
            stretch.ends = stretch.ends or at == len(prompt)
            yield stretch

    def _parts(self, engine: EngineId, blocks: Sequence[BlockHash]) -> Iterator[tuple[_Stretch, int, int]]:
        """Where blocks in any order are: the stretch, the first of them there, and how many. Others are left out."""
        at, credited = 0, self._of.get(engine, {})
        while at < len(blocks):
            stretch = credited.get(blocks[at])
            if stretch is None:
                at = _next_credited(credited, blocks, at)
                continue
            first = stretch.place(blocks[at], at - stretch.start)
            number = _same(stretch.blocks[first:], blocks[at:])
            if number == 1:  # as engines evict a prompt: from its end
                number = _same(stretch.blocks[first::-1], blocks[at:])
                first -= number - 1
            yield stretch, first, number
            at += number

    def _time(self, engine: EngineId, stretch: _Stretch, until: float) -> None:
        stretch.until = until
        if until < inf:
            heappush(self._due, (until, next(self._numbers), engine, stretch))

    def _cut(self, engine: EngineId, stretch: _Stretch, first: int, number: int) -> _Stretch:
        """These blocks of a stretch as one of their own."""
        if first:
            _, stretch = self._divided(engine, stretch, first)
        if number < len(stretch.blocks):
            stretch, _ = self._divided(engine, stretch, number)
        return stretch

    def _divided(self, engine: EngineId, stretch: _Stretch, at: int) -> tuple[_Stretch, _Stretch]:
        front, rear = stretch.blocks[:at], stretch.blocks[at:]
        if len(front) < len(rear):  # the shorter one is made anew
            made = self._make(engine, front, stretch.start, stretch.until, ends=False)
            stretch.blocks, stretch.start, both = rear, stretch.start + at, (made, stretch)
        else:
            made = self._make(engine, rear, stretch.start + at, stretch.until, ends=stretch.ends)
            stretch.blocks, stretch.ends, both = front, False, (stretch, made)
        self._time(engine, made, made.until)
        return both

    def _make(self, engine: EngineId, blocks: Sequence[BlockHash], start: int, until: float, *, ends: bool) -> _Stretch:
        stretch = _Stretch((), start, until, ends=ends)
        made = dict.fromkeys(blocks, stretch)
        stretch.blocks = list(made)  # what other gateways tell of may be no chain, and have a block twice
        self._of[engine].update(made)
        return stretch

    def _drop(self, engine: EngineId, stretch: _Stretch, first: int, end: int) -> None:
        if end < len(stretch.blocks):
            stretch, _ = self._divided(engine, stretch, end)
        gone = stretch.blocks[first:]
        stretch.blocks, stretch.ends = stretch.blocks[:first], False
        credited = self._of[engine]
        for block in gone:
            del credited[block]
        if not credited:
            del self._of[engine]


def _next_credited(credited: _Credited, blocks: Sequence[BlockHash], at: int) -> int:
    """Where the next one is that is credited."""
    rest = blocks[at:]
    # Mostly so, and known in half the time that it takes to count along.
    if not credited or credited.keys().isdisjoint(rest):
        return len(blocks)
    return next(compress(count(at), map(credited.__contains__, rest)))


def _same(one: Sequence[BlockHash], other: Sequence[BlockHash]) -> int:
    """How many blocks are the same at their beginnings."""
    return next(compress(count(), map(ne, one, other)), min(len(one), len(other)))
