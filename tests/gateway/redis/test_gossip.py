"""What gateways tell each other, through a real Valkey, alone or as a cluster."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from redis.asyncio import Redis
from valkey_server import Valkey, valkey, valkey_cluster

from gateway.config import IndexConfig
from gateway.fleet.others import Others
from gateway.redis.connect import connect
from gateway.redis.gossip import Gossip
from routing.cost import PROFILES
from routing.decision import Decision, Prompt, RouteRequest
from routing.fit import SpeedFit
from routing.fleet import Engine, Fleet, Lease, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.history import RouteHistory
from routing.load import UnderWay
from routing.policies import POLICIES
from routing.reuse import ReuseChance
from routing.room import Room
from routing.router import Router
from routing.stakes import Stakes
from routing.types import BlockHash, EngineId, Namespace, ReplicaId

KEY = "kvgate:gossip"
SPACE = Namespace("m", 16)
PATIENCE = 20.0


@pytest.fixture(params=["alone", "a cluster"])
def shared(request: pytest.FixtureRequest) -> Iterator[IndexConfig]:
    with contextlib.ExitStack() as stack:
        if request.param == "alone":
            yield IndexConfig(redis_url=stack.enter_context(valkey()).url)
        else:
            nodes = stack.enter_context(valkey_cluster())
            yield IndexConfig(redis_url=nodes[0].url, redis_cluster=True)


@dataclass
class Teller:
    """One gateway: a fleet of two, and its part in the gossip."""

    gossip: Gossip
    fleet: Fleet
    fresh: FreshRoutes
    others: Others
    router: Router
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    @property
    def engines(self) -> list[Engine]:
        return list(self.fleet)

    def decide(self, *prompts: list[BlockHash], seed: int = 0) -> Decision:
        request = RouteRequest("m", [Prompt(16 * len(blocks) + 1, {SPACE: blocks}) for blocks in prompts])
        now = asyncio.get_running_loop().time()
        decision = self.router.route(request, [{}] * len(prompts), POLICIES["kv-aware"](Random(seed)), now)
        self.gossip.note(decision)
        return decision


@contextlib.asynccontextmanager
async def teller(settings: IndexConfig, name: str) -> AsyncIterator[Teller]:
    """A gateway that talks until left."""
    loop = asyncio.get_running_loop()
    fleet, fresh = Fleet(), FreshRoutes(2.0)
    for number in range(2):
        fleet.join(Replica(ReplicaId(f"10.0.0.{number}:8000"), "http://x", (ModelCard("m"),)))
    others = Others(fleet, fresh, RouteHistory(1000, 1_000_000, 60.0), loop.time)
    client = connect(settings)

    def under_way() -> dict[EngineId, UnderWay]:
        return {engine.id: engine.load.ours for engine in fleet if engine.load.ours.in_flight}

    gossip = Gossip(client, KEY, name, others, under_way, lifetime=2.0, interval=0.01, retry=0.05)
    router = Router(fleet, fresh, SpeedFit(PROFILES["llama-8b-h100"]), Stakes(Room(ReuseChance(), 600.0)))
    tasks = [asyncio.create_task(part) for part in (gossip.tell(), gossip.listen())]
    try:
        yield Teller(gossip, fleet, fresh, others, router, tasks)
    finally:
        for task in tasks:
            task.cancel()
        await gossip.leave()
        await client.aclose()


async def until(condition: Callable[[], object], what: str) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while not condition():
        assert loop.time() < end, f"not within {PATIENCE} s: {what}"
        await asyncio.sleep(0.01)


async def test_a_request_counts_at_the_other_gateway_until_it_ends(shared: IndexConfig) -> None:
    async with teller(shared, "a") as a, teller(shared, "b") as b:
        lease = Lease(a.engines[1].load, 1000, 400, 0.0)
        await until(lambda: b.engines[1].load.in_flight, "b knows of the request")
        assert b.engines[1].load.elsewhere == a.engines[1].load.ours
        assert b.engines[0].load.in_flight == 0
        lease.first_token(0.0)
        await until(lambda: not b.engines[1].load.pending, "b knows of its first token")
        lease.release(0.0)
        await until(lambda: not b.engines[1].load.in_flight, "b knows of its end")
        assert a.engines[1].load.in_flight == 0


async def test_two_gateways_send_equal_prompts_to_one_replica(server: Valkey) -> None:
    shared = IndexConfig(redis_url=server.url)
    blocks = [BlockHash(number) for number in range(500)]
    async with teller(shared, "a") as a, teller(shared, "b") as b:
        await until(lambda: len(b.others), "b hears a")
        sent = a.decide(blocks)
        now = asyncio.get_running_loop().time()
        await until(lambda: b.fresh.extend_by_hearsay(sent.engine, blocks, 0, now), "b knows of the route")
        for seed in range(10):
            assert b.decide(blocks, seed=seed).engine == sent.engine


async def test_of_a_request_of_many_prompts_the_first_blocks_are_told_each_prompt_by_itself(server: Valkey) -> None:
    shared = IndexConfig(redis_url=server.url)
    begin = [BlockHash(number) for number in range(20)]
    prompts = [[*begin, *(BlockHash(1000 * number + at) for at in range(380))] for number in range(1, 5)]
    async with teller(shared, "a") as a, teller(shared, "b") as b:
        await until(lambda: len(b.others), "b hears a")
        sent = a.decide(*prompts)
        now = asyncio.get_running_loop().time()

        def heard() -> list[int]:
            return [b.fresh.extend_by_hearsay(sent.engine, prompt, 0, now) for prompt in prompts]

        await until(lambda: any(heard()), "b knows of the route")
        assert heard() == [400, 400, 224, 20]


async def test_who_comes_later_learns_what_is_under_way(server: Valkey) -> None:
    settings = IndexConfig(redis_url=server.url)
    async with teller(settings, "a") as a:
        Lease(a.engines[0].load, 1000, 400, 0.0)
        await until(lambda: a.gossip.told, "a has told it")
        async with teller(settings, "b") as b:
            await until(lambda: b.engines[0].load.in_flight, "a repeats it")


async def test_a_gateway_that_leaves_is_forgotten_at_once_and_one_that_died_soon(server: Valkey) -> None:
    settings = IndexConfig(redis_url=server.url)
    async with teller(settings, "b") as b:
        async with teller(settings, "a") as a:
            Lease(a.engines[0].load, 1000, 400, 0.0)
            await until(lambda: b.engines[0].load.in_flight, "b knows of the request")
        await until(lambda: not b.engines[0].load.in_flight, "a has left")
        async with teller(settings, "c") as c:
            Lease(c.engines[0].load, 1000, 400, 0.0)
            await until(lambda: b.engines[0].load.in_flight, "b knows of the request")
            for task in c.tasks:
                task.cancel()
            await until(lambda: not b.engines[0].load.in_flight, "c is silent")


async def test_it_goes_on_when_redis_has_been_away(server: Valkey) -> None:
    settings = IndexConfig(redis_url=server.url)
    async with teller(settings, "a") as a, teller(settings, "b") as b:
        lease = Lease(a.engines[0].load, 1000, 400, 0.0)
        await until(lambda: b.engines[0].load.in_flight, "b knows of the request")
        server.kill()
        Lease(a.engines[1].load, 1000, 400, 0.0)
        lease.release(0.0)
        server.start()
        server.answers()
        await until(lambda: b.engines[1].load.in_flight, "b hears of it again")
        assert b.engines[0].load.in_flight == 0


async def test_words_that_nobody_understands_are_passed_over(server: Valkey) -> None:
    settings = IndexConfig(redis_url=server.url)
    async with teller(settings, "a") as a, Redis.from_url(server.url) as client:
        await until(lambda: a.gossip.told, "the stream is there")
        for word in (
            b"",
            b"\x93",
            b"\xc1",
            b"\x93\xa1x\x81\xa1e\x90\x90",
            b"\x93\xa1x\x80\x91\x93\xa3a/0\xc4\x01x\x01",
        ):
            await client.xadd(KEY, {"word": word})
        await until(lambda: a.gossip.unreadable == 5, "all five were read")
        assert not any(task.done() for task in a.tasks)
