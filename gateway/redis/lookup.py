"""What each engine holds of a prompt, asked of Redis within a deadline."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from gateway.redis.health import Health
from gateway.redis.looks import Search
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import RedisIndexError
from gateway.redis.seeing import Seeing, Spawn
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch

Found = Mapping[EngineId, PrefixMatch]


class Lookup:
    """Matches chains.

    deadline: seconds that a caller waits at most.
    spawn: runs a task.
    fallback: what is known in this process, for when Redis has no answer.
    """

    def __init__(
        self,
        index: RedisIndex,
        health: Health,
        deadline: float,
        spawn: Spawn,
        fallback: Callable[[Sequence[BlockHash]], Found],
    ) -> None:
        self._seeing = Seeing(index, health, deadline, spawn)
        self._health = health
        self._deadline = deadline
        self._fallback = fallback

    async def match(self, chains: Sequence[tuple[Namespace, Sequence[BlockHash]]]) -> Sequence[Found]:
        """How long a prefix of each chain each engine holds. Never fails, never waits longer than the deadline."""
        if self._health.up:
            try:
                async with asyncio.timeout(self._deadline):
                    return await self._searched(chains)
            except (TimeoutError, RedisIndexError):
                # Who carried the questions says so where it knows better; this waiter only goes on without.
                pass
        return [self._fallback(blocks) for _, blocks in chains]

    async def _searched(self, chains: Sequence[tuple[Namespace, Sequence[BlockHash]]]) -> Sequence[Found]:
        searches = [Search(blocks) for _, blocks in chains]
        models = [space.model for space, _ in chains]
        while asked := [
            (search, self._seeing.see(model, search.look))
            for search, model in zip(searches, models, strict=True)
            if search.look
        ]:
            try:
                for search, answer in asked:
                    search.saw(await answer)
            finally:
                for _, answer in asked:
                    answer.cancel()
        return [search.found for search in searches]
