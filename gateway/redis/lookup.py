"""What each engine holds of a prompt, asked of Redis within a deadline."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import ConnectionError, NoScriptError

from gateway.redis.health import Health
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import MATCH, RedisIndexError, run, run_together, translated
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch

Found = Mapping[EngineId, PrefixMatch]
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class _Question(NamedTuple):
    model: str
    blocks: Sequence[BlockHash]
    answer: "asyncio.Future[Found]"


class Lookup:
    """Matches chains. What is asked in one turn of the event loop goes in one exchange.

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
        self._index = index
        self._health = health
        self._deadline = deadline
        self._spawn = spawn
        self._fallback = fallback
        self._questions: list[_Question] = []

    async def match(self, chains: Sequence[tuple[Namespace, Sequence[BlockHash]]]) -> Sequence[Found]:
        """How long a prefix of each chain each engine holds. Never fails, never waits longer than the deadline."""
        if self._health.up:
            questions = [self._ask(space.model, blocks) for space, blocks in chains if blocks]
            try:
                async with asyncio.timeout(self._deadline):
                    answers = iter([await question for question in questions])
                return [next(answers) if blocks else {} for _, blocks in chains]
            except (TimeoutError, RedisIndexError):
                # Who carried the questions says so where it knows better; this waiter only goes on without.
                for question in questions:
                    question.cancel()
        return [self._fallback(blocks) for _, blocks in chains]

    def _ask(self, model: str, blocks: Sequence[BlockHash]) -> "asyncio.Future[Found]":
        loop = asyncio.get_running_loop()
        if not self._questions:
            loop.call_soon(self._send)
        answer: asyncio.Future[Found] = loop.create_future()
        self._questions.append(_Question(model, blocks, answer))
        return answer

    def _send(self) -> None:
        questions, self._questions = self._questions, []
        self._spawn(self._exchange(questions))

    async def _exchange(self, questions: Sequence[_Question]) -> None:
        loop = asyncio.get_running_loop()
        late = loop.call_later(self._deadline, self._health.failed, "no answer within the deadline")
        answers: Sequence[object]
        try:
            answers = await self._answers(questions)
            if loop.time() < late.when():
                self._health.worked()
        except RedisIndexError as exc:
            self._health.failed(str(exc), surely=isinstance(exc.__cause__, ConnectionError))
            answers = [exc] * len(questions)
        finally:
            late.cancel()
        for question, answer in zip(questions, answers, strict=True):
            if question.answer.done():
                continue
            try:
                question.answer.set_result(self._index.read_match(question.model, len(question.blocks), answer))
            except RedisIndexError as exc:
                question.answer.set_exception(exc)
                # Nobody may be left to ask for it.
                question.answer.exception()

    async def _answers(self, questions: Sequence[_Question]) -> Sequence[object]:
        calls = [self._index.question(question.model, question.blocks) for question in questions]
        client = self._index.client
        if not isinstance(client, Redis):
            return list(await asyncio.gather(*(run(client, MATCH, *call) for call in calls)))
        answers = await run_together(client, MATCH, calls)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            try:
                await client.script_load(MATCH.text)
            except Exception as exc:
                raise translated(exc) from exc
            answers = await run_together(client, MATCH, calls)
        return answers
