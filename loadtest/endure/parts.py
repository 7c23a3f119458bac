"""What a gateway has to endure: clients that leave, engines that die or close what is idle, thousands of streams."""

import asyncio
import random
import statistics
import time
from collections.abc import Mapping
from itertools import count

import httpx

from loadtest.endure.client import Client, Leaves, Tally
from loadtest.endure.watched import watched

CLIENTS = 64
CALIBRATION_SECONDS = 8.0
SHARE = 0.8
LEAVING = 0.05
ROUNDS, ROUND = 50, 200
DYING_RATE = 100.0
EXCUSED = frozenset({"replica_failed", "502 in a stream"})
"""what is said where the engine had the request already, so that another one may not get it"""
STREAMS = 2000
PACE_MS = 100


class Load:
    """Requests of all kinds, from clients that share a schedule."""

    def __init__(self, port: int, seed: int) -> None:
        self.tally = Tally()
        self._port = port
        self._random = random.Random(seed)
        self._number = count()

    async def run(self, seconds: float, rate: float | None, leaving: float) -> None:
        """rate: requests a second, whatever the answers take; None for one after the other on each connection."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        due = begun

        async def one_client() -> None:
            nonlocal due
            client = Client(self._port, self.tally)
            while (now := loop.time()) < begun + seconds:
                if rate is not None:
                    mine = due = due + self._random.expovariate(rate)
                    if mine > now:
                        await asyncio.sleep(mine - now)
                await self._ask(client, leaving)
            client.hang_up()

        await asyncio.gather(*(one_client() for _ in range(CLIENTS)))

    async def _ask(self, client: Client, leaving: float) -> None:
        draw = self._random
        leaves = draw.choice(list(Leaves)) if draw.random() < leaving else None
        tokens, filler = draw.randint(1, 40), int(draw.paretovariate(1.2) * 200) % 32_000
        await client.ask(f"n{next(self._number)}", tokens, filler, stream=draw.random() < 0.5, leaves=leaves)


async def load(port: int, pid: int, seconds: float) -> Mapping[str, object]:
    """80 % of what it can do, with clients that leave."""
    trial = Load(port, 1)
    await trial.run(CALIBRATION_SECONDS, None, 0.0)
    capacity = trial.tally.right / CALIBRATION_SECONDS
    run = Load(port, 2)
    async with watched(pid) as process:
        await run.run(seconds, SHARE * capacity, LEAVING)
    tally = run.tally
    asked = tally.right + tally.wrong + tally.left + tally.errors.total()
    return {
        "endure": "load", "seconds": seconds, "capacity_per_s": round(capacity), "asked_per_s": round(asked / seconds),
        "right": tally.right, "wrong": tally.wrong, "left": tally.left, "errors": dict(tally.errors),
        **process.figures(),
    }  # fmt: skip


async def dying(port: int, seconds: float) -> Mapping[str, object]:
    """Load while engines die: only who was being answered may notice."""
    run = Load(port, 4)
    await run.run(seconds, DYING_RATE, 0.0)
    tally = run.tally
    noticed = sum(count for error, count in tally.errors.items() if error in EXCUSED)
    return {
        "endure": "dying", "seconds": seconds, "right": tally.right, "wrong": tally.wrong,
        "were_being_answered": noticed,
        "errors": {error: count for error, count in tally.errors.items() if error not in EXCUSED},
    }  # fmt: skip


async def idle(port: int) -> Mapping[str, object]:
    """10,000 requests in bursts, with pauses about as long as servers keep idle connections."""
    tally, draw = Tally(), random.Random(3)
    clients = [Client(port, tally) for _ in range(ROUND)]
    begun = time.monotonic()
    for number in range(ROUNDS):
        await asyncio.gather(
            *(client.ask(f"i{number}-{at}", 2, 100, stream=False) for at, client in enumerate(clients))
        )
        await asyncio.sleep(draw.uniform(3.8, 5.2))
    for client in clients:
        client.hang_up()
    return {
        "endure": "idle", "seconds": round(time.monotonic() - begun), "right": tally.right, "wrong": tally.wrong,
        "errors": dict(tally.errors),
    }  # fmt: skip


async def streams(port: int, pid: int, seconds: float) -> Mapping[str, object]:
    """2,000 streams at once; meanwhile health is asked for."""
    tally, took = Tally(), list[float]()
    clients = [Client(port, tally) for _ in range(STREAMS)]
    tokens = max(1, int(seconds * 1000 / PACE_MS))
    url = f"http://127.0.0.1:{port}"
    async with watched(pid) as process, httpx.AsyncClient(base_url=url, timeout=30) as operator:
        running = asyncio.gather(
            *(client.ask(f"s{at}", tokens, 100, stream=True, pace_ms=PACE_MS) for at, client in enumerate(clients))
        )
        while not running.done():
            begun = time.monotonic()
            (await operator.get("/healthz")).raise_for_status()
            took.append(time.monotonic() - begun)
            await asyncio.sleep(0.05)
        await running
        text = (await operator.get("/metrics")).text
    for client in clients:
        client.hang_up()
    failed = [line for line in text.splitlines() if line.startswith("kvgate_probe_failures_total{")]
    return {
        "endure": "streams", "streams": STREAMS, "seconds": seconds, "right": tally.right, "wrong": tally.wrong,
        "errors": dict(tally.errors), "healthz_p50_ms": round(statistics.median(took) * 1e3, 1),
        "healthz_p99_ms": round(statistics.quantiles(took, n=100)[98] * 1e3, 1),
        "healthz_most_ms": round(max(took) * 1e3, 1),
        "probes_failed": sum(float(line.rsplit(" ", 1)[1]) for line in failed), **process.figures(),
    }  # fmt: skip
