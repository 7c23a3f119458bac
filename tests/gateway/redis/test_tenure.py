"""An engine's lease, and what it is proven for."""

import pytest
from redis.asyncio import Redis
from shared_gateway import engine
from told_engine import MODEL, chain
from valkey_server import Valkey

from gateway.kv.position import Position
from gateway.redis.batch import Batch
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import Fenced, RedisIndexError
from gateway.redis.tenure import Tenure, acquire
from routing.books import Entries, Traits
from routing.changes import Put
from routing.types import EngineHash, Tier

CHAIN = chain((1, 2, 3))
NAMES = {EngineHash(100 + number): block for number, block in enumerate(CHAIN)}


async def had(client: Redis, gateway: str) -> Tenure:
    tenure = await acquire(RedisIndex(client, "test:"), MODEL, engine(1), gateway, 60_000)
    assert tenure is not None
    return tenure


async def test_what_the_owner_before_left_is_loaded_from_the_server_that_gave_the_lease_only(server: Valkey) -> None:
    async with Redis.from_url(server.url) as client:
        before = await had(client, "one")
        batch = Batch()
        batch.add([Put(Tier.GPU, CHAIN)], Entries(NAMES, {}, Traits()), Position(7, b"proof", 1.0), lambda tier: set())
        await before.apply(batch)
        await before.release(forget=False)
        successor = await had(client, "another")
        kept = await successor.load()
        assert kept is not None
        assert kept.books.names == NAMES
        assert kept.books.held[Tier.GPU] == set(CHAIN)
        await client.flushall()  # as one that takes its place
        with pytest.raises(Fenced):
            await successor.load()


async def test_a_lease_is_not_renewed_by_a_server_that_has_no_memory_to_be_told_what_is_gone(server: Valkey) -> None:
    async with Redis.from_url(server.url) as client:
        index, tenure = RedisIndex(client, "test:"), await had(client, "one")
        await tenure.apply(Batch("all"))
        await index.renew(MODEL, 60_000, {engine(1): tenure.standing})
        await client.config_set("maxmemory", 1)
        with pytest.raises(RedisIndexError, match="OutOfMemory"):
            await index.renew(MODEL, 60_000, {engine(1): tenure.standing})
