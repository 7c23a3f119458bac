"""Requests that ask at once share exchanges and nothing else."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from random import Random
from time import monotonic
from typing import Any

import pytest
from redis.asyncio import Redis
from shared_gateway import engine
from valkey_server import Valkey

from gateway.redis.batch import Batch
from gateway.redis.health import FAILURES, Health
from gateway.redis.looks import LINEAR, STRIDES, Found
from gateway.redis.lookup import Lookup
from gateway.redis.redis_index import RedisIndex
from gateway.redis.tenure import acquire
from routing.changes import Put
from routing.types import BlockHash, Namespace, PrefixMatch, Tier

A = engine(1)
ELSEWHERE = {engine(9): PrefixMatch(1, 1)}
"""what is known without Redis"""
LENGTHS = (3, 100, 300, 700, 2000)
DEADLINE = 0.2


class World:
    """Chains of two models, each held by an engine to a depth of its own."""

    def __init__(self, client: Redis, group: asyncio.TaskGroup) -> None:
        random = Random(7)
        self.index = RedisIndex(client, "test:")
        self.health = Health(monotonic)
        self.lookup = Lookup(self.index, self.health, DEADLINE, group.create_task, self._known)
        self.chains: dict[tuple[Namespace, Sequence[BlockHash]], Mapping[object, PrefixMatch]] = {}
        for model in ("one", "other"):
            for length in LENGTHS * 4:
                chain = tuple(BlockHash(random.getrandbits(64)) for _ in range(length))
                depth = random.randint(1, length)
                self.chains[Namespace(model, 16), chain] = {A: PrefixMatch(depth, depth)}

    async def fill(self) -> None:
        for model in ("one", "other"):
            tenure = await acquire(self.index, model, A, "gateway", 600_000)
            assert tenure is not None
            batch = Batch("all")
            for (space, chain), held in self.chains.items():
                if space.model == model:
                    batch.add([Put(Tier.GPU, chain[: held[A].l0])], None, None, lambda tier: frozenset())
            await tenure.apply(batch)

    def _known(self, blocks: Sequence[BlockHash]) -> Found:
        return ELSEWHERE


@contextlib.asynccontextmanager
async def world(server: Valkey) -> AsyncIterator[World]:
    async with Redis.from_url(server.url) as client, asyncio.TaskGroup() as group:
        world = World(client, group)
        await world.fill()
        yield world


async def test_each_of_many_that_ask_at_once_gets_its_own_answer(server: Valkey) -> None:
    async with world(server) as here:
        chains = list(here.chains)
        answers = await asyncio.gather(*(here.lookup.match([chain]) for chain in chains))
        assert [found for (found,) in answers] == list(here.chains.values())
        assert await here.lookup.match(chains) == list(here.chains.values()), "one request with many prompts"
        assert await here.lookup.match([(Namespace("one", 16), [])]) == [{}]


class Spoilt(tuple[BlockHash, ...]):
    """A chain with a fault of ours in it, met in the second look."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and index.step == STRIDES[0]:
            raise AttributeError
        return super().__getitem__(index)


async def test_a_fault_of_our_own_is_no_outage(server: Valkey) -> None:
    async with world(server) as here:
        chain = next(chain for (_, chain), held in here.chains.items() if LINEAR < held[A].l0 < len(chain))
        with pytest.raises(AttributeError):
            await here.index.match("one", Spoilt(chain))
        assert await here.index.match("one", chain) == here.chains[Namespace("one", 16), chain]


async def test_they_share_exchanges(server: Valkey) -> None:
    async with world(server) as here, Redis.from_url(server.url) as client:
        await here.lookup.match(list(here.chains)[:1])
        await client.config_resetstat()
        chains = [chain for chain in here.chains if len(chain[1]) < 500]
        await asyncio.gather(*(here.lookup.match([chain]) for chain in chains))
        calls = (await client.info("commandstats"))["cmdstat_mget"]["calls"]
        assert calls <= len(chains) / 2


async def test_who_gives_up_takes_nobodys_answer_away(server: Valkey) -> None:
    async with world(server) as here:
        chains = list(here.chains)
        asking = [asyncio.create_task(here.lookup.match([chain])) for chain in chains]
        await asyncio.sleep(0)
        for task in asking[::2]:
            task.cancel()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert found[1::2] == [[held] for held in list(here.chains.values())[1::2]]


async def test_redis_that_hangs_is_given_up_though_an_exchange_is_still_under_way(server: Valkey) -> None:
    async with world(server) as here:
        (chain, *_) = here.chains
        server.pause()
        for _ in range(FAILURES):
            assert here.health.up
            assert await here.lookup.match([chain, chain]) == [ELSEWHERE, ELSEWHERE]
        assert not here.health.up
        server.resume()
