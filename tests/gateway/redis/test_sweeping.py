"""What engines leave behind in Redis is cleared before it can be taken for another's."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from redis.asyncio import Redis
from shared_gateway import engine
from told_engine import MODEL, chain
from valkey_server import Valkey

from gateway.redis.batch import Batch
from gateway.redis.names import engine_name
from gateway.redis.redis_index import RedisIndex
from gateway.redis.sweeping import Sweeper
from gateway.redis.tenure import Tenure, acquire
from routing.changes import Put
from routing.types import BlockHash, Tier

CHAIN = chain((1, 2, 3))
LONG = chain(tuple(range(300)))


async def hold(index: RedisIndex, number: int, blocks: Sequence[BlockHash]) -> Tenure:
    """The lease of an engine that holds something."""
    tenure = await acquire(index, MODEL, engine(number), "a", 60_000)
    assert tenure is not None
    batch = Batch()
    batch.add([Put(Tier.GPU, blocks)], None, None, lambda tier: frozenset())
    await tenure.apply(batch)
    return tenure


async def leave(index: RedisIndex, number: int, blocks: Sequence[BlockHash] = CHAIN) -> None:
    """An engine holds something and leaves."""
    tenure = await hold(index, number, blocks)
    await tenure.release(forget=True)


async def test_a_pass_over_a_server_that_is_gone_frees_nothing_in_the_next_one(server: Valkey) -> None:
    async with Redis.from_url(server.url) as client:
        index = RedisIndex(client, "test:")
        await leave(index, 1)
        before = await index.retired(MODEL)
        await client.flushall()
        await leave(index, 2)
        after = await index.retired(MODEL)
        assert before.keys() == after.keys(), "the same slot is cleared in both"
        assert await index.sweep(MODEL, before, "0") == "0"
        assert await index.retired(MODEL) == after
        assert await index.sweep(MODEL, after, "0") == "0"
        assert await index.retired(MODEL) == {}
        assert await client.keys(f"{index.base(MODEL)}b*") == []


async def test_a_pass_that_began_before_the_server_came_back_from_a_snapshot_frees_nothing(server: Valkey) -> None:
    async with Redis.from_url(server.url) as client:
        index = RedisIndex(client, "test:")
        await leave(index, 1, LONG)
        retired = await index.retired(MODEL)
        await client.save()
        cursor = await index.sweep(MODEL, retired, "0", page=100)
        assert cursor != "0"
        server.kill()
        server.start()
        await asyncio.to_thread(server.answers)
        await client.connection_pool.disconnect()
        while cursor != "0":
            cursor = await index.sweep(MODEL, retired, cursor, page=100)
        assert await index.retired(MODEL) == retired
        while (cursor := await index.sweep(MODEL, retired, cursor, page=100)) != "0":
            pass
        assert await index.retired(MODEL) == {}
        assert await client.keys(f"{index.base(MODEL)}b*") == []


async def test_a_model_that_no_gateway_serves_any_more_is_cleared_by_those_that_are_left(server: Valkey) -> None:
    async with Redis.from_url(server.url) as client:
        index = RedisIndex(client, "test:")
        before, after = Sweeper(index, forget=0), Sweeper(index, forget=0)
        passes: list[asyncio.Task[None]] = []

        def begin(step: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            passes.append(asyncio.create_task(step))
            return passes[-1]

        # Its gateways ended, and those that came after them are told of another model only.
        before.keep_clean([MODEL], begin)
        await passes[-1]
        tenure = await hold(index, 1, CHAIN)
        await tenure.release(forget=False)
        for _ in range(3):
            after.keep_clean(["another"], begin)
            await passes[-1]
        blocks = [key async for key in client.scan_iter(f"{index.base(MODEL)}b*")]
        assert blocks == []
        assert not await client.exists(*[f"{index.base(MODEL)}{kind}:{engine_name(engine(1))}" for kind in "ne"])
        assert await index.models([]) == ["another"]
