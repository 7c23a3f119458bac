"""Blocks credited to an engine from the decision on, until its events confirm them.

Events come when the engine has got to the prompt, which under load is many seconds after the decision. Without credits
a burst of equal prompts would scatter over the fleet, and more so the longer the queues are.
"""

from collections import deque
from collections.abc import Sequence
from math import inf

from routing.types import BlockHash, EngineId


class FreshRoutes:
    """Credits that count while their prompt has no first token, and shortly after.

    Until its first token the prompt is in front of whatever is sent to the engine now, so its blocks will be there in
    time, even where an event says meanwhile that they were evicted.

    lifetime: seconds after the first token that a credit counts at the most, if no event speaks of the block before.
    """

    def __init__(self, lifetime: float) -> None:
        self._lifetime = lifetime
        self._until: dict[EngineId, dict[BlockHash, float]] = {}
        self._queue: deque[tuple[float, EngineId, Sequence[BlockHash]]] = deque()

    def __contains__(self, engine: EngineId) -> bool:
        """Whether the engine has any credits, expired ones among them."""
        return engine in self._until

    def credit(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks goes there."""
        if blocks:
            self._until.setdefault(engine, {}).update(dict.fromkeys(blocks, inf))

    def began(self, engine: EngineId, blocks: Sequence[BlockHash], now: float) -> None:
        """The prompt of these blocks has its first token: from now on events tell of them."""
        self._expire(now)
        credits = self._until.get(engine)
        if credits and blocks:
            until = now + self._lifetime
            credits.update(dict.fromkeys(blocks, until))
            self._queue.append((until, engine, blocks))

    def hear(self, engine: EngineId, blocks: Sequence[BlockHash], until: float, now: float) -> None:
        """Another gateway has sent a prompt there of which these blocks are new. They count until then at the most."""
        self._expire(now)
        credits = self._until.setdefault(engine, {})
        credits.update((block, until) for block in blocks if credits.get(block, 0.0) < until)
        self._queue.append((until, engine, blocks))

    def extend(self, engine: EngineId, blocks: Sequence[BlockHash], depth: int, now: float) -> int:
        """How many leading blocks the engine has, given that it holds `depth` of them. Returns at least `depth`."""
        credits = self._until.get(engine)
        if credits:
            while depth < len(blocks) and credits.get(blocks[depth], 0.0) > now:
                depth += 1
        return depth

    def settle(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """Events have spoken of `blocks`: where they are part of a prompt that began, they are no longer credited."""
        credits = self._until.get(engine)
        if credits:
            for block in blocks:
                if credits.get(block, inf) != inf:
                    del credits[block]

    def withdraw(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """The prompt of these blocks got no answer there, so nothing says that they are, or will be, held."""
        credits = self._until.get(engine)
        if credits:
            for block in blocks:
                credits.pop(block, None)

    def forget(self, engine: EngineId) -> None:
        """The engine left, or its cache is gone."""
        self._until.pop(engine, None)

    def _expire(self, now: float) -> None:
        while self._queue and self._queue[0][0] <= now:
            _, engine, blocks = self._queue.popleft()
            credits = self._until.get(engine)
            if credits is None:
                continue
            for block in blocks:
                if credits.get(block, inf) <= now:
                    del credits[block]
            if not credits:
                del self._until[engine]
