"""Gateways and replicas under traffic, killed and stopped: nothing else fails, and the index is right soon after.

KVGATE_CHAOS_SECONDS sets for how long each fleet is treated so, KVGATE_CHAOS_FLEET how many of each there are, and
KVGATE_CHAOS_SEED who it hits.
"""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
import yaml
from redis.asyncio import Redis
from valkey_server import Valkey, valkey

from loadtest.processes import consecutive_free_ports
from tests.chaos.children import Child
from tests.chaos.left import leaks
from tests.chaos.traffic import Failure, Traffic
from tests.chaos.truth import WITHIN, seconds_until_right

SECONDS = float(os.environ.get("KVGATE_CHAOS_SECONDS", "60"))
GATEWAYS, REPLICAS = map(int, os.environ.get("KVGATE_CHAOS_FLEET", "3x8").split("x"))
SEED = int(os.environ.get("KVGATE_CHAOS_SEED", "1"))
CLIENTS = 2
"""at each gateway"""
PATIENCE = 60.0
"""seconds for an index to become right, so that a failure shows how long it took"""
WARM = 30.0
"""seconds in which a gateway comes to its size"""
GROWTH = 16 * 2**20
"""bytes that it may grow by after that"""


class Fleet:
    """All processes. shared: the index is in this server."""

    def __init__(self, folder: Path, shared: Valkey | None, seed: int) -> None:
        ports = consecutive_free_ports(GATEWAYS + 3 * REPLICAS)
        first, events = ports + GATEWAYS, ports + GATEWAYS + REPLICAS
        self.shared = shared
        self.replicas = [
            self._replica(folder, number, first + number, events + 2 * number, seed) for number in range(REPLICAS)
        ]
        settings: dict[str, object] = {
            "replicas": [{"url": one.url} for one in self.replicas],
            "probing": {"interval": 0.5, "timeout": 2.0, "failures": 2},
        }
        if shared:
            # What is tested is what gateways know, not how fast: the deadline is for machines that do nothing else.
            settings["index"] = {"redis_url": shared.url, "deadline_ms": 1000}
        self.gateways = [self._gateway(folder, number, ports + number, settings) for number in range(GATEWAYS)]

    def _replica(self, folder: Path, number: int, port: int, kv_port: int, seed: int) -> Child:
        """One in whose events some are lost."""
        arguments = [
            "replica", "--port", str(port), "--kv-port", str(kv_port), "--blocks", "400", "--time-scale", "0.05",
            "--event-loss", "0.02", "--seed", str(seed + number),
        ]  # fmt: skip
        return Child(
            f"replica {number}", arguments, f"http://127.0.0.1:{port}", "/health", folder / f"replica-{number}.log"
        )

    def _gateway(self, folder: Path, number: int, port: int, settings: dict[str, object]) -> Child:
        file = folder / f"gateway-{number}.yaml"
        file.write_text(yaml.safe_dump({"listen": {"host": "127.0.0.1", "port": port}, **settings}))
        url = f"http://127.0.0.1:{port}"
        return Child(
            f"gateway {number}", ["serve", "--config", str(file)], url, "/readyz", folder / f"gateway-{number}.log"
        )


@pytest.fixture(params=["in memory", "in a shared Valkey"])
def shared(request: pytest.FixtureRequest) -> Iterator[Valkey | None]:
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(valkey()) if request.param == "in a shared Valkey" else None


async def kill(children: Sequence[Child], random: Random) -> None:
    child = random.choice(children)
    await child.kill()
    await asyncio.sleep(random.uniform(0.0, 1.0))
    await child.start()


async def freeze(children: Sequence[Child], random: Random, seconds: float) -> None:
    child = random.choice(children)
    child.freeze()
    await asyncio.sleep(seconds)
    child.thaw()


async def stop_valkey(server: Valkey) -> None:
    server.kill()
    await asyncio.sleep(2.0)
    server.start()
    await asyncio.to_thread(server.answers)


async def turn_valkey_back(server: Valkey) -> None:
    """It dies, and comes back at once with what it had a while ago, leases too."""
    async with Redis.from_url(server.url) as client:
        await client.save()
    await asyncio.sleep(1.0)
    server.kill()
    server.start()
    await asyncio.to_thread(server.answers)
    server.snapshot.unlink()


@dataclass(frozen=True)
class Death:
    """From when to when a process died."""

    name: str
    begun: float
    ended: float


def unexplained(failures: Sequence[Failure], deaths: Sequence[Death]) -> list[Failure]:
    """Failures of requests during which no replica died, nor the gateway that they went through."""
    return [
        failure
        for failure in failures
        if not any(
            failure.begun <= death.ended
            and death.begun <= failure.ended
            and (death.name == failure.gateway or death.name.startswith("replica"))
            for death in deaths
        )
    ]


async def test_nothing_fails_but_what_was_killed_and_the_index_is_right_soon_after(
    shared: Valkey | None, tmp_path: Path
) -> None:
    random = Random(SEED)
    fleet = Fleet(tmp_path, shared, seed=SEED)
    everybody = [*fleet.replicas, *fleet.gateways]
    faults: dict[str, Callable[[], Awaitable[None]]] = {
        "a replica is killed": lambda: kill(fleet.replicas, random),
        # The first one lives for the whole time: what it leaks is seen.
        "a gateway is killed": lambda: kill(fleet.gateways[1:], random),
        "a replica hangs": lambda: freeze(fleet.replicas, random, 1.0),
        "a gateway hangs": lambda: freeze(fleet.gateways, random, 1.0),
        "a gateway hangs for longer than its leases last": lambda: freeze(fleet.gateways, random, 3.0),
    }
    if shared:
        faults["the shared index is gone"] = lambda: stop_valkey(shared)
        faults["the shared index is as it was before"] = lambda: turn_valkey_back(shared)
    traffic = Traffic(fleet.gateways, CLIENTS, seed=SEED)
    deaths: list[Death] = []
    loop = asyncio.get_running_loop()
    try:
        await asyncio.gather(*(child.start() for child in fleet.replicas))
        await asyncio.gather(*(child.start() for child in fleet.gateways))
        async with asyncio.TaskGroup() as group:
            clients = await traffic.run(group)
            traffic.resume()
            await asyncio.sleep(5.0)
            end, turn = loop.time() + SECONDS, 0
            while loop.time() < end or turn < len(faults):
                what = list(faults)[turn % len(faults)]
                turn += 1
                await asyncio.sleep(1.0)
                await faults[what]()
                deaths += [Death(child.name, child.killed, child.gone) for child in everybody]
                await asyncio.sleep(0.5)
                await traffic.pause()
                elapsed, wrong = await seconds_until_right(
                    fleet.gateways, fleet.replicas, traffic.prompts[-4:], patience=PATIENCE
                )
                print(
                    f"{what}: right after {elapsed:.2f} s, {traffic.answered} answered, {len(traffic.failures)} failed"
                )
                assert elapsed <= WITHIN, f"{what}: {wrong}"
                assert not unexplained(traffic.failures, deaths)
                for gateway in fleet.gateways:
                    gateway.weigh()
                traffic.resume()
            await traffic.pause()
            for client in clients:
                client.cancel()
        if shared:
            assert await leaks(shared.url, fleet.replicas) == []
        for gateway in fleet.gateways:
            seconds, grown = gateway.growth(WARM)
            print(f"{gateway.name}: {grown / 2**20:+.1f} MiB in {seconds:.0f} s")
            assert grown < GROWTH, gateway.name
        print(Counter(failure.what[:60] for failure in traffic.failures))
        assert traffic.answered > 100
    finally:
        await asyncio.gather(*(child.stop() for child in everybody))
