"""Connections that wait for use."""

from processes import eventually
from redis.asyncio import Redis
from told_engine import chain
from valkey_server import Valkey

from gateway.config import IndexConfig
from gateway.redis.connect import connect
from gateway.redis.redis_index import RedisIndex


async def test_a_connection_that_was_closed_while_it_was_idle_fails_no_search(server: Valkey) -> None:
    client = connect(IndexConfig(redis_url=server.url))
    assert isinstance(client, Redis)
    index, blocks = RedisIndex(client, "test:"), chain((1, 2))
    try:
        assert await index.match("model", blocks) == {}
        connection = await client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        async with Redis.from_url(server.url) as other:
            await other.client_kill_filter(_type="normal", skipme=True)
        await eventually(connection.can_read, "the connection is closed")
        await client.connection_pool.release(connection)
        assert await index.match("model", blocks) == {}
    finally:
        await client.aclose()
