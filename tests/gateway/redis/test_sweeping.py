"""What engines leave behind in Redis is cleared before it can be taken for another's."""

from redis.asyncio import Redis
from shared_gateway import engine
from told_engine import MODEL, chain
from valkey_server import Valkey

from gateway.redis.batch import Batch
from gateway.redis.redis_index import RedisIndex
from gateway.redis.tenure import acquire
from routing.changes import Put
from routing.types import Tier

CHAIN = chain((1, 2, 3))


async def leave(index: RedisIndex, number: int) -> None:
    """An engine holds something and leaves."""
    tenure = await acquire(index, MODEL, engine(number), "a", 60_000)
    assert tenure is not None
    batch = Batch()
    batch.add([Put(Tier.GPU, CHAIN)], None, None, lambda tier: frozenset())
    await tenure.apply(batch)
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
