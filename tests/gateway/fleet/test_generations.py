"""A thousand pods at one address, one after the other: nothing of those that are gone remains."""

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
from membership_world import A, World, membership_world, update
from processes import eventually
from prometheus_client import generate_latest

from gateway.background import Background
from gateway.config import Probing, ReplicaConfig
from gateway.fleet.discovery.reconcile import identity
from gateway.fleet.discovery.roster import Roster
from gateway.fleet.probe import Probe
from gateway.fleet.supervisor import Watch
from gateway.kv.update import Update
from gateway.relay.pool import Pool
from routing.breaker import BreakerRules
from routing.fleet import Engine, Lease
from routing.health import Health
from routing.ledger import Put
from routing.load import EngineLoad
from routing.types import BlockHash, Tier

GENERATIONS = 1000
URL = "http://127.0.0.1:9"
CHAIN = [BlockHash(number) for number in range(4)]
OF_A_REPLICA = (Engine, EngineLoad, Lease, Pool, Watch, Probe, Update)


def answer(request: httpx.Request) -> httpx.Response:
    if request.url.path == "/v1/models":
        return httpx.Response(200, json={"data": [{"id": "m", "root": "/nowhere"}]})
    return httpx.Response(200)


def pod(generation: int) -> ReplicaConfig:
    return ReplicaConfig.model_validate({"url": URL, "uid": f"pod-{generation}", "kv_events": "tcp://127.0.0.1:9"})


@dataclass
class Watched:
    world: World
    roster: Roster

    async def live(self, generation: int) -> Lease:
        """A pod joins, tells what it holds and gets a request. Returns the lease, which outlives it."""
        world = self.world
        self.roster.want([pod(generation)])
        await soon(lambda: len(world.fleet) == 1 and not world.index.match(CHAIN))
        world.membership.take_in(update(generation, [Put(Tier.GPU, CHAIN)]))
        assert A in world.index.match(CHAIN)
        world.fresh.credit(A, CHAIN)
        engine = world.fleet.get(A)
        assert engine is not None
        return Lease(engine.load, 100, 100, 0.0)

    async def until_nobody_is_there(self) -> None:
        self.roster.want([])
        await soon(lambda: len(self.world.fleet) == 0)


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    """A fleet whose replicas are watched over a network on which every one of them answers."""
    async with (
        membership_world() as world,
        httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client,
        Background() as background,
    ):
        health = Health(world.fleet, BreakerRules(5, 2, 1.0, 30.0), slow_start=0.0)

        def watch(replica: ReplicaConfig) -> Watch:
            probe = Probe(client, URL, 1.0)
            return Watch(
                probe, replica, URL, Probing(), world.membership, world.fleet, health, world.metrics, time.monotonic
            )

        roster = Roster(watch, background, drain=health.drain, gone=lambda who: world.metrics.forget(A.replica))
        yield Watched(world, roster)
        roster.close()


async def soon(condition: Callable[[], bool]) -> None:
    """Within some turns of the loop, as nothing here waits for anything else."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def of_replicas() -> int:
    gc.collect()
    return sum(isinstance(thing, OF_A_REPLICA) for thing in gc.get_objects())


async def test_nothing_of_a_thousand_generations_of_pods_remains() -> None:
    async with watched() as there:
        world = there.world
        first = await there.live(1)
        await there.until_nobody_is_there()
        first.release(0.0)
        del first
        tasks, files, objects = len(asyncio.all_tasks()), descriptors(), of_replicas()
        for generation in range(2, GENERATIONS + 2):
            lease = await there.live(generation)
            if generation % 2:
                await there.until_nobody_is_there()  # else the next one takes the address at once
            lease.release(0.0)
        await there.until_nobody_is_there()
        del lease
        assert not there.roster.watches(identity(pod(0)).url)
        assert len(world.index) == 0
        assert list(world.membership.streams()) == []
        assert world.fresh.extend(A, CHAIN, 0, now=0.1) == 0
        await soon(lambda: b"127.0.0.1:9" not in generate_latest(world.metrics.registry))

        async def settled() -> bool:
            return len(asyncio.all_tasks()) <= tasks and descriptors() <= files and of_replicas() <= objects

        await eventually(settled, f"no more than {tasks} tasks, {files} descriptors and {objects} objects, as at first")
