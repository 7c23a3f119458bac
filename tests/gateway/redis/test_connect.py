"""Connections that wait for use."""

from processes import eventually
from redis.asyncio import Redis
from valkey_server import Valkey

from gateway.config import IndexConfig
from gateway.redis.connect import connect
from gateway.redis.reading import Connections, read


async def held(connections: Connections) -> list[bytes | None]:
    async with connections.borrowed("key") as connection:
        first, others = await read(connection, "key", "block", [1, 2])
        return [first, *others]


async def test_a_connection_that_was_closed_while_it_was_idle_fails_no_reading(server: Valkey) -> None:
    async with connect(IndexConfig(redis_url=server.url)) as client, Redis.from_url(server.url) as other:
        connections = Connections(client)
        await other.set("key", "value")
        assert await held(connections) == [b"value", None, None]
        async with connections.borrowed("key") as connection:
            pass
        await other.client_kill_filter(_type="normal", skipme=True)
        await eventually(connection.can_read, "the connection is closed")
        assert await held(connections) == [b"value", None, None]


async def test_connections_are_kept_and_closed_with_the_client(server: Valkey) -> None:
    async with connect(IndexConfig(redis_url=server.url)) as client:
        connections = Connections(client)
        async with connections.borrowed("key") as one, connections.borrowed("key") as two:
            assert one is not two
        async with connections.borrowed("key") as again:
            assert again in (one, two)
    assert not one.is_connected
    assert not two.is_connected
