"""Clients that talk through gateways without a break, and what became of their requests."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import httpx

from tests.chaos.children import Child

WORDS = 2000
"""token ids that prompts are made of"""
THINKING = 0.1
"""seconds between an answer and the next question: what is tested is not what a machine can take"""


@dataclass(frozen=True)
class Failure:
    gateway: str
    begun: float
    ended: float
    what: str


class Traffic:
    """`clients` conversations at a time through each gateway; each grows by its answers' length."""

    def __init__(self, gateways: Sequence[Child], clients: int, seed: int) -> None:
        self.failures: list[Failure] = []
        self.answered = 0
        self.prompts: list[list[int]] = []
        """the last ones that were answered"""
        self._gateways = gateways
        self._clients = clients
        self._random = Random(seed)
        self._running = asyncio.Event()
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._stems = [self._tokens(200) for _ in range(6)]

    async def run(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start the clients, paused."""
        return [group.create_task(self._client(one)) for one in self._gateways for _ in range(self._clients)]

    def resume(self) -> None:
        self._running.set()

    async def pause(self) -> None:
        """No new requests; wait until those under way have ended."""
        self._running.clear()
        await self._idle.wait()

    async def _client(self, gateway: Child) -> None:
        loop = asyncio.get_running_loop()
        async with httpx.AsyncClient(timeout=60.0) as http:
            prompt: list[int] = []
            while True:
                await self._running.wait()
                if gateway.back < gateway.killed:
                    await asyncio.sleep(0.05)  # a balancer would not send to it
                    continue
                if not prompt or len(prompt) > 1000:
                    prompt = [*self._random.choice(self._stems), *self._tokens(20)]
                begun = loop.time()
                self._under_way += 1
                self._idle.clear()
                try:
                    what = await self._ask(http, gateway, prompt)
                finally:
                    self._under_way -= 1
                    if not self._under_way:
                        self._idle.set()
                if what:
                    self.failures.append(Failure(gateway.name, begun, loop.time(), what))
                    continue
                await asyncio.sleep(THINKING)
                self.answered += 1
                self.prompts = [*self.prompts[-15:], list(prompt)]
                prompt += self._tokens(40)

    async def _ask(self, http: httpx.AsyncClient, gateway: Child, prompt: list[int]) -> str | None:
        """Returns what went wrong."""
        body = {"model": "sim", "prompt": prompt, "max_tokens": 8, "ignore_eos": True, "stream": True}
        try:
            answer = await http.post(gateway.url + "/v1/completions", json=body)
        except httpx.HTTPError as exc:
            return repr(exc)
        if answer.is_success and answer.text.rstrip().endswith("data: [DONE]"):
            return None
        return f"{answer.status_code} {answer.text[-200:]}"

    def _tokens(self, count: int) -> list[int]:
        return [self._random.randrange(300, 300 + WORDS) for _ in range(count)]
