"""Blocks credited to an engine from the decision on, until its events confirm them.

Events come when the engine has got to the prompt, which under load is many seconds after the decision. Without credits
a burst of equal prompts would scatter over the fleet, and more so the longer the queues are.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from math import inf
from sys import float_info

from routing.types import BlockHash, EngineId

_LAST_MOMENT = float_info.max
"""What counts then counts without end."""


class _Credit:
    """Blocks that are credited together, mostly a prompt's, and until when they count."""

    __slots__ = ("blocks", "until", "whole")

    def __init__(self, blocks: Sequence[BlockHash], until: float) -> None:
        self.blocks = blocks
        self.until = until
        self.whole = True
        """none of them has ended apart from the others"""

    def reach(self, blocks: Sequence[BlockHash], depth: int) -> int:
        """How far this credit reaches in a prompt, given that the block at `depth` is among those that it stands for.

        Who credits a block credits all before it. So up to where two prompts part this one stands for what follows,
        and as a block's hash stands for all before it, that place is found by bisection.
        """
        ours = self.blocks
        if not self.whole or depth >= len(ours) or ours[depth] != blocks[depth]:
            return depth + 1
        common = range(min(len(ours), len(blocks)))
        return bisect_left(common, True, lo=depth + 1, key=lambda at: ours[at] != blocks[at])


class _Credits:
    """What is credited to each engine: the latest credit of each block."""

    __slots__ = ("_queue", "ends", "of")

    def __init__(self) -> None:
        self.of: dict[EngineId, dict[BlockHash, _Credit]] = {}
        self.ends: dict[EngineId, set[BlockHash]] = {}
        """of the credited blocks, those that were a prompt's last"""
        self._queue: deque[tuple[float, EngineId, Sequence[BlockHash]]] = deque()

    def due(self, until: float, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """Have `expire` look at these from then on."""
        self._queue.append((until, engine, blocks))

    def expire(self, now: float) -> None:
        """End those whose time is over."""
        while self._queue and self._queue[0][0] <= now:
            _, engine, blocks = self._queue.popleft()
            credits = self.of.get(engine)
            if credits is None:
                continue
            self.end(engine, [block for block in blocks if block in credits and credits[block].until <= now])
            if not credits:
                self.forget(engine)

    def settle(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """End those that have a time."""
        credits = self.of.get(engine)
        if credits:
            self.end(engine, [block for block in blocks if block in credits and credits[block].until != inf])

    def end(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """These count no more; all of them are credited."""
        credits = self.of[engine]
        for block in dict.fromkeys(blocks):
            credits.pop(block).whole = False
        if engine in self.ends:
            self.ends[engine].difference_update(blocks)

    def forget(self, engine: EngineId) -> None:
        """None of this engine's counts any more."""
        self.of.pop(engine, None)
        self.ends.pop(engine, None)


class FreshRoutes:
    """Credits that count while their prompt has no first token, and shortly after.

    Until its first token the prompt is in front of whatever is sent to the engine now, so its blocks will be there in
    time, even where an event says meanwhile that they were evicted.

    lifetime: seconds after the first token that a credit counts at the most, if no event speaks of the block before.
    """

    def __init__(self, lifetime: float) -> None:
        self._lifetime = lifetime
        self._ours = _Credits()
        self._told = _Credits()
        """by other gateways"""

    def __contains__(self, engine: EngineId) -> bool:
        """Whether the engine has any credits, expired ones among them."""
        return engine in self._ours.of or engine in self._told.of

    def credit(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks goes there."""
        if blocks:
            known = self.extend(engine, blocks, 0, _LAST_MOMENT)
            credits = self._ours.of.setdefault(engine, {})
            credits.update(dict.fromkeys(blocks[known:], _Credit(blocks, inf)))
            self._ours.ends.setdefault(engine, set()).add(blocks[-1])

    def began(self, engine: EngineId, blocks: Sequence[BlockHash], now: float) -> None:
        """The prompt of these blocks has its first token: from now on events tell of them."""
        self._ours.expire(now)
        credits = self._ours.of.get(engine)
        if credits and blocks:
            until = now + self._lifetime
            credits.update(dict.fromkeys(blocks, _Credit(blocks, until)))
            self._ours.due(until, engine, blocks)

    def hear(self, engine: EngineId, blocks: Sequence[BlockHash], until: float, now: float) -> None:
        """Another gateway has sent a prompt there of which these blocks are new. They are likely held until then.

        Not more than likely: of what became of the prompt nothing is told.
        """
        self._told.expire(now)
        told = self._told.of.setdefault(engine, {})
        credit = _Credit(blocks, until)
        told.update((block, credit) for block in blocks if block not in told or told[block].until < until)
        self._told.due(until, engine, blocks)

    def extend(self, engine: EngineId, blocks: Sequence[BlockHash], depth: int, now: float) -> int:
        """How many leading blocks the engine has, given that it holds `depth` of them. Returns at least `depth`."""
        credits = self._ours.of.get(engine)
        if credits:
            while depth < len(blocks) and (credit := credits.get(blocks[depth])) and credit.until > now:
                depth = credit.reach(blocks, depth)
        return depth

    def extend_by_hearsay(self, engine: EngineId, blocks: Sequence[BlockHash], depth: int, now: float) -> int:
        """How many leading blocks the engine likely has, by what other gateways have told too."""
        told = self._told.of.get(engine)
        if told:
            ours = self._ours.of.get(engine, {})
            while depth < len(blocks) and (_counts(told, blocks[depth], now) or _counts(ours, blocks[depth], now)):
                depth += 1
        return depth

    def extend_to_an_end(self, engine: EngineId, blocks: Sequence[BlockHash], depth: int, now: float) -> int:
        """As `extend`, no further than a credited prompt as a whole: for models that can't go on from its middle."""
        reached = self.extend(engine, blocks, depth, now)
        ends = self._ours.ends.get(engine, ())
        while reached > depth and blocks[reached - 1] not in ends:
            reached -= 1
        return reached

    def settle(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """Events have spoken of `blocks`: where they are part of a prompt that began, they are no longer credited."""
        self._ours.settle(engine, blocks)
        self._told.settle(engine, blocks)

    def withdraw(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """The prompt of these blocks got no answer there, so nothing says that they are, or will be, held."""
        credits = self._ours.of.get(engine)
        if credits:
            self._ours.end(engine, [block for block in blocks if block in credits])

    def forget(self, engine: EngineId) -> None:
        """The engine left, or its cache is gone."""
        self._ours.forget(engine)
        self._told.forget(engine)


def _counts(credits: Mapping[BlockHash, _Credit], block: BlockHash, now: float) -> bool:
    credit = credits.get(block)
    return credit is not None and credit.until > now
