"""One slice through one router over real sockets: processes, HTTP, KV events and clocks are all real."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence

import httpx

from loadtest.compare.outcome import Asked, Outcome
from loadtest.compare.plan import Fleet, Slice
from loadtest.compare.routers import Router
from loadtest.play import CONNECTIONS, Exchange, PlayFailed, ask
from loadtest.processes import consecutive_free_ports, python
from loadtest.replica.text import Text
from loadtest.traces.spell import Speller
from loadtest.trial import MODEL, empty_caches

PARTS = 24
"""of the time, to show how load spreads"""
ANSWER_SECONDS = 600.0
"""how long a client waits for the next piece of an answer"""
_COMPUTED = {"vllm:prompt_tokens_total": 1, "vllm:prompt_tokens_cached_total": -1}


@contextlib.asynccontextmanager
async def replicas(fleet: Fleet, port: int | None = None, time_scale: float = 1.0) -> AsyncIterator[list[str]]:
    """Simulated replicas in one child process. Raises ChildFailed.

    port: of the first; None for free ones. time_scale: real seconds per simulated second.
    """
    first = port or consecutive_free_ports(fleet.replicas)
    urls = [f"http://127.0.0.1:{first + number}" for number in range(fleet.replicas)]
    command = ["-m", "loadtest.replica", "--model", MODEL, "--profile", fleet.profile.name]
    command += ["--blocks", str(fleet.blocks + 1), "--block-size", str(fleet.block_size)]
    command += [
        "--time-scale",
        str(time_scale),
        "--port",
        str(first),
        "--kv-port",
        str(consecutive_free_ports(2 * fleet.replicas)),
    ]
    # Some routers have prompts rendered by the replicas.
    command += ["--enable-scale-out", "--count", str(fleet.replicas)]
    async with python(command, [f"{url}/health" for url in urls]):
        yield urls


async def play(
    slice: Slice,
    router: Router,
    replicas: Sequence[str],
    text: Text,
    answered: Callable[[], None],
    time_scale: float = 1.0,
) -> Outcome:
    """From empty caches. answered: called after each request. Raises ChildFailed or httpx.HTTPError.

    time_scale: the replicas'. Requests come so much more slowly, and times are told in simulated seconds: the slower
    all this is, the less the speed of this machine is part of the result.
    """
    # Looks at counters are seconds apart, about as long as replicas keep an idle connection.
    single_use = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=ANSWER_SECONDS, limits=single_use) as client:
        await empty_caches(client, replicas)
        async with router.serving(replicas) as url:
            run = _Run(slice, url, Speller(text, slice.trace, slice.seed), answered, time_scale)
            parts = asyncio.create_task(_computed(client, replicas, run))
            await run.play()
            computed = await parts
    return Outcome(router.name, slice.load, slice.seed, run.asked[slice.warm_up :], computed)


class _Run:
    def __init__(
        self, slice: Slice, url: str, speller: Speller, answered: Callable[[], None], time_scale: float
    ) -> None:
        requests = slice.trace.requests
        self.warm = asyncio.Event()
        """the first request that counts was sent"""
        self.over = asyncio.Event()
        self.seconds = (requests[-1].arrival - requests[slice.warm_up].arrival) * time_scale
        """that the requests which count take to arrive"""
        self._scale = time_scale
        self._slice = slice
        self._url = url
        self._speller = speller
        self._answered = answered
        self._ended = [asyncio.Event() for _ in requests]
        self._asked: list[Asked | None] = [None] * len(requests)

    @property
    def asked(self) -> list[Asked]:
        """In the order of the trace, once played."""
        return [one for one in self._asked if one is not None]

    async def play(self) -> None:
        start = time.perf_counter()
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=2)
        async with (
            httpx.AsyncClient(base_url=self._url, limits=limits, timeout=ANSWER_SECONDS) as client,
            asyncio.TaskGroup() as group,
        ):
            for number in range(len(self._ended)):
                group.create_task(self._one(client, number, start))
        self.over.set()

    async def _one(self, client: httpx.AsyncClient, number: int, start: float) -> None:
        request = self._slice.trace.requests[number]
        if request.follows is None:
            await asyncio.sleep(start + request.arrival * self._scale - time.perf_counter())
        else:
            await self._ended[request.follows].wait()
            await asyncio.sleep(request.pause * self._scale)
        if number >= self._slice.warm_up:
            self.warm.set()
        messages = [{"role": "user", "content": self._speller.prompt(request)}]
        try:
            exchange = await ask(client, MODEL, messages, request.output_tokens)
            self._asked[number] = _seen(number, exchange, self._scale)
        except PlayFailed:
            self._asked[number] = Asked(number, request.prompt_tokens, 0, None, 0.0)
        self._ended[number].set()
        self._answered()


def _seen(number: int, exchange: Exchange, scale: float) -> Asked:
    itl = (exchange.seconds - exchange.ttft) / max(1, exchange.output_tokens - 1)
    return Asked(number, exchange.prompt_tokens, exchange.cached_tokens, exchange.ttft / scale, itl / scale)


async def _computed(client: httpx.AsyncClient, replicas: Sequence[str], run: _Run) -> list[list[int]]:
    """Tokens computed by each replica in each part of the time from the warm-up's end to the run's."""
    await run.warm.wait()
    before = await _counters(client, replicas)
    parts: list[list[int]] = []
    while not run.over.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(run.over.wait(), max(0.5, run.seconds / PARTS))
        now = await _counters(client, replicas)
        parts.append([after - first for after, first in zip(now, before, strict=True)])
        before = now
    return parts


async def _counters(client: httpx.AsyncClient, replicas: Sequence[str]) -> list[int]:
    return [_total((await client.get(f"{url}/metrics")).text) for url in replicas]


def _total(metrics: str) -> int:
    total = 0.0
    for line in metrics.splitlines():
        sign = _COMPUTED.get(line.partition("{")[0])
        if sign:
            total += sign * float(line.rsplit(maxsplit=1)[-1])
    return int(total)
