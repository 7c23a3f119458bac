"""Searches of many requests, carried to Redis some at a time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from redis.exceptions import ConnectionError

from gateway.redis.health import Health
from gateway.redis.looks import Found
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import RedisIndexError
from routing.types import BlockHash

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]

_MOST = 8
"""searches in one exchange: sixteen that come at once are two, so that neither side waits while the other works"""
_TOGETHER = 2
"""exchanges under way: Redis works on one while the other's answers are read here"""


class _Question(NamedTuple):
    chain: Sequence[BlockHash]
    answer: "asyncio.Future[Found]"


class Seeing:
    """What is asked while exchanges are under way waits, and goes out together when one of them is over.

    deadline: seconds after which an exchange without an answer counts as failed, and nothing waits for its end.
    """

    def __init__(self, index: RedisIndex, health: Health, deadline: float, spawn: Spawn) -> None:
        self._index = index
        self._health = health
        self._deadline = deadline
        self._spawn = spawn
        self._waiting: dict[str, list[_Question]] = {}
        """by model; whose turn it is comes first"""
        self._under_way: set[asyncio.Task[None]] = set()

    def see(self, model: str, chain: Sequence[BlockHash]) -> "asyncio.Future[Found]":
        """How long a prefix each engine holds. The future raises RedisIndexError; who waits no longer cancels it."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._send)
        answer: asyncio.Future[Found] = loop.create_future()
        self._waiting.setdefault(model, []).append(_Question(chain, answer))
        return answer

    def _send(self) -> None:
        while self._waiting and len(self._under_way) < _TOGETHER:
            model = next(iter(self._waiting))
            asked = [question for question in self._waiting.pop(model) if not question.answer.done()]
            if len(asked) > _MOST:
                self._waiting[model] = asked[_MOST:]
            if asked:
                exchange = self._spawn(self._exchange(model, asked[:_MOST]))
                self._under_way.add(exchange)
                exchange.add_done_callback(self._over)

    async def _exchange(self, model: str, questions: Sequence[_Question]) -> None:
        loop, this = asyncio.get_running_loop(), asyncio.current_task()
        assert this is not None
        late = loop.call_later(self._deadline, self._late, this)
        try:
            found = await self._index.matches(model, [question.chain for question in questions])
        except RedisIndexError as exc:
            self._health.failed(str(exc), surely=isinstance(exc.__cause__, ConnectionError))
            for question in questions:
                if not question.answer.done():
                    question.answer.set_exception(exc)
                    # Who asked may have heard of it by another of its questions.
                    question.answer.exception()
            return
        finally:
            late.cancel()
        if loop.time() < late.when():
            self._health.worked()
        for question, match in zip(questions, found, strict=True):
            if not question.answer.done():
                question.answer.set_result(match)

    def _late(self, exchange: "asyncio.Task[None]") -> None:
        self._health.failed("no answer within the deadline")
        self._over(exchange)

    def _over(self, exchange: "asyncio.Task[None]") -> None:
        self._under_way.discard(exchange)
        if not exchange.cancelled():
            self._send()
