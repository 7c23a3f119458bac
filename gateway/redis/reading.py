"""Reads many blocks' keys at once.

The library takes longer to pack a command of a thousand keys, and to mind its timeouts, than the server takes to answer
it. So such a command is packed here, and sent on a connection of the library's without any.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from redis.asyncio import RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection

from gateway.redis.names import Number, pack
from gateway.redis.scripts import Client


@asynccontextmanager
async def borrowed(client: Client, key: str) -> AsyncIterator[AbstractConnection]:
    """A connection to who has the key, as far as the client knows. Nothing on it times out."""
    if isinstance(client, RedisCluster):
        node = client.get_node_from_key(key)
        assert node is not None, "a slot without its primary raises"
        connection = node.acquire_connection()
        if connection.is_connected and await connection.can_read():
            # Closed by the server while it was idle. What is sent opens it again, as a pool has done already.
            await connection.disconnect()
    else:
        connection = cast(Connection, await client.connection_pool.get_connection())  # type: ignore[no-untyped-call]
    patience, connection.socket_timeout = connection.socket_timeout, None
    try:
        yield connection
    finally:
        connection.socket_timeout = patience
        if isinstance(client, RedisCluster):
            assert node is not None
            node.release(connection)
        else:
            await client.connection_pool.release(connection)


async def read(
    connection: AbstractConnection, key: str, prefix: str, names: Sequence[Number]
) -> tuple[bytes | None, Iterator[bytes | None]]:
    """What the key holds, and what the key of each name does, all at the same time."""
    await connection.send_packed_command(_mget(key.encode(), prefix.encode(), names), check_health=False)
    found = iter(cast(list[bytes | None], await connection.read_response()))
    return next(found), found


def _mget(key: bytes, prefix: bytes, names: Sequence[Number]) -> bytes:
    before = b"\r\n$%d\r\n%b" % (len(prefix) + 8, prefix)
    # The first byte of every name, then the second: much faster than name by name.
    keys, packed = bytearray((before + bytes(8)) * len(names)), pack(names)
    for place in range(8):
        keys[len(before) + place :: len(before) + 8] = packed[place::8]
    return b"".join((b"*%d\r\n$4\r\nMGET\r\n$%d\r\n%b" % (len(names) + 2, len(key), key), keys, b"\r\n"))
