"""What two gateways write of one block at the same time."""

import asyncio

from redis.asyncio import Redis
from shared_gateway import engine
from told_engine import MODEL, chain
from valkey_server import Valkey

from gateway.redis.batch import Batch
from gateway.redis.redis_index import RedisIndex
from gateway.redis.tenure import Tenure, acquire
from routing.changes import Change, Drop, Put
from routing.types import PrefixMatch, Tier

A, B = engine(1), engine(2)
CHAIN = chain((1, 2, 3))


def told(change: Change) -> Batch:
    batch = Batch()
    batch.add([change], None, None, lambda tier: frozenset())
    return batch


async def test_blocks_that_one_engine_drops_while_another_stores_them_are_the_others(server: Valkey) -> None:
    """Who looks whether nobody holds a block, and then deletes it, deletes what came in between."""
    async with Redis.from_url(server.url) as one, Redis.from_url(server.url) as other:
        index, owners = RedisIndex(one, "test:"), list[Tenure]()
        for client, who in ((one, A), (other, B)):
            tenure = await acquire(RedisIndex(client, "test:"), MODEL, who, "gateway", 600_000)
            assert tenure is not None
            owners.append(tenure)
        (a, b), holder = owners, A
        await a.apply(told(Put(Tier.GPU, CHAIN)))
        await b.apply(told(Drop(Tier.GPU, CHAIN)))
        for _ in range(100):
            await asyncio.gather(a.apply(told(Drop(Tier.GPU, CHAIN))), b.apply(told(Put(Tier.GPU, CHAIN))))
            (a, b), holder = (b, a), B if holder == A else A
            assert await index.match(MODEL, CHAIN) == {holder: PrefixMatch(3, 3)}
        await a.apply(told(Drop(Tier.GPU, CHAIN)))
        assert await one.keys(f"{index.base(MODEL)}b*") == []
