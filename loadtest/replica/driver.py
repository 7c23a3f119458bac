"""Runs an engine in real time: steps take their time, tokens go to whoever waits for them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from loadtest.replica.engine import Engine, Outcome
from loadtest.replica.kv_events import KVEvent
from loadtest.replica.request import Request

CATCH_UP_SECONDS = 0.005
"""how late a step may end and still not delay the next; more than timers' jitter means that this machine is too slow"""


class Token(NamedTuple):
    choice: int
    """which of the answer's requests, by position"""
    token: int
    finish_reason: str | None
    """of that request, with its last token"""


@dataclass(slots=True)
class Answer:
    """What comes back of one call's requests."""

    requests: Sequence[Request]
    unfinished: int
    failed: bool = False
    """whether the engine gave one of them up"""
    tokens: asyncio.Queue[Token | None] = field(default_factory=asyncio.Queue)
    """as they are sampled; None when the last request has ended, or the client has left"""


class Driver:
    """Steps one engine; nobody else does."""

    def __init__(self, engine: Engine, publish: Callable[[Sequence[KVEvent]], object], time_scale: float) -> None:
        """publish: takes a step's events, never waits. time_scale: real seconds per simulated second, > 0."""
        self.engine = engine
        self._publish = publish
        self._time_scale = time_scale
        self._wanted = asyncio.Event()
        self._answers: dict[Request, tuple[Answer, int]] = {}

    def submit(self, requests: Sequence[Request]) -> Answer:
        """Queue the requests of one call. Give the answer to `close`, however the call ends."""
        answer = Answer(requests, len(requests))
        for index, request in enumerate(requests):
            self.engine.add(request)
            self._answers[request] = (answer, index)
        self._wanted.set()
        return answer

    def close(self, answer: Answer) -> None:
        """Abort what still runs, so that its blocks are free at once."""
        for request in answer.requests:
            self.engine.abort(request)
            self._answers.pop(request, None)

    async def run(self) -> None:
        """Step until cancelled."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            step = self.engine.start_step()
            self._give_up()
            if step is None:
                self._wanted.clear()
                await self._wanted.wait()
                begun = loop.time()
                continue
            end = begun + step.seconds * self._time_scale
            await asyncio.sleep(max(0.0, end - loop.time()))
            self._deliver(self.engine.finish_step(step))
            begun = max(end, loop.time() - CATCH_UP_SECONDS)

    def _give_up(self) -> None:
        """End the calls of requests that the engine could not go on with."""
        failed, self.engine.failed = self.engine.failed, []
        for request in failed:
            answer, _ = self._answers[request]
            answer.failed = True
            answer.tokens.put_nowait(None)

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.events:
            self._publish(outcome.events)
        for request, token in outcome.sampled:
            answer, index = self._answers[request]
            answer.tokens.put_nowait(Token(index, token, request.finish_reason if request.finished else None))
            if request.finished:
                answer.unfinished -= 1
                if not answer.unfinished:
                    answer.tokens.put_nowait(None)
