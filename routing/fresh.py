"""Blocks credited to an engine right after a decision, until its events confirm them.

Events come one engine step later, so without this a burst of equal prompts would scatter over the fleet.
"""

from collections import deque
from collections.abc import Sequence

from routing.types import BlockHash, EngineId


class FreshRoutes:
    """Credits that expire by themselves.

    lifetime: seconds that a credit counts.
    """

    def __init__(self, lifetime: float) -> None:
        self._lifetime = lifetime
        self._until: dict[EngineId, dict[BlockHash, float]] = {}
        self._queue: deque[tuple[float, EngineId, Sequence[BlockHash]]] = deque()

    def credit(self, engine: EngineId, blocks: Sequence[BlockHash], now: float) -> None:
        """Count `blocks`, which follow what the engine already holds, as held until `now` plus the lifetime."""
        self._expire(now)
        if blocks:
            until = now + self._lifetime
            self._until.setdefault(engine, {}).update(dict.fromkeys(blocks, until))
            self._queue.append((until, engine, blocks))

    def extend(self, engine: EngineId, blocks: Sequence[BlockHash], depth: int, now: float) -> int:
        """How many leading blocks the engine has, given that it holds `depth` of them. Returns at least `depth`."""
        credits = self._until.get(engine)
        if credits:
            while depth < len(blocks) and credits.get(blocks[depth], 0.0) > now:
                depth += 1
        return depth

    def settle(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """End the credits of `blocks`: events have spoken of them, or the request ended before any could."""
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
                if credits.get(block, now + 1.0) <= now:
                    del credits[block]
            if not credits:
                del self._until[engine]
