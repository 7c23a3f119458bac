"""What each engine holds of a prompt, asked of Redis within a deadline."""

import asyncio
from collections.abc import Callable, Sequence

from gateway.redis.health import Health
from gateway.redis.looks import Found
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import RedisIndexError
from gateway.redis.seeing import Seeing, Spawn
from routing.types import BlockHash, Namespace


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
            answers = [self._seeing.see(space.model, blocks) for space, blocks in chains]
            # A timer takes a quarter of what `asyncio.timeout` takes, which is a tenth of a match.
            late = asyncio.get_running_loop().call_later(self._deadline, _give_up, answers)
            try:
                return [await answer for answer in answers]
            except (TimeoutError, RedisIndexError):
                # Who carried the questions says so where it knows better; this waiter only goes on without.
                pass
            finally:
                late.cancel()
                for answer in answers:
                    answer.cancel()
        return [self._fallback(blocks) for _, blocks in chains]


def _give_up(answers: Sequence["asyncio.Future[Found]"]) -> None:
    for answer in answers:
        if not answer.done():
            answer.set_exception(TimeoutError())
            # It may be another's failure that the waiter is about to hear of.
            answer.exception()
            return
