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
from gateway.redis.scripts import Asking, Client


class Connections:
    """Lends connections on which nothing times out, each for one exchange after the other.

    What the library lends is kept: its pool takes longer to lend than Redis to answer, and closes it in the end.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._idle: list[Connection] = []

    @asynccontextmanager
    async def borrowed(self, key: str) -> AsyncIterator[AbstractConnection]:
        """A connection to who has the key, as far as the client knows. Raises RedisIndexError."""
        node = None
        with Asking():
            if isinstance(self._client, RedisCluster):
                node = self._client.get_node_from_key(key)
                assert node is not None, "a slot without its primary raises"
                connection = node.acquire_connection()
            elif self._idle:
                connection = self._idle.pop()
            else:
                pool = self._client.connection_pool
                connection = cast(Connection, await pool.get_connection())  # type: ignore[no-untyped-call]
        patience, connection.socket_timeout = connection.socket_timeout, None
        try:
            with Asking():
                if connection.is_connected and await connection.can_read():
                    # Closed by the server while it was idle. What is sent opens it again.
                    await connection.disconnect()
            yield connection
        finally:
            connection.socket_timeout = patience
            if node:
                node.release(connection)
            else:
                self._idle.append(connection)


async def read(
    connection: AbstractConnection, key: str, prefix: str, names: Sequence[Number]
) -> tuple[bytes | None, Iterator[bytes | None]]:
    """What the key holds, and what the key of each name does, all at the same time. Raises RedisIndexError."""
    command = _mget(key.encode(), prefix.encode(), names)
    with Asking():
        await connection.send_packed_command(command, check_health=False)
        answer = await connection.read_response()
    found = iter(cast(list[bytes | None], answer))
    return next(found), found


def _mget(key: bytes, prefix: bytes, names: Sequence[Number]) -> bytes:
    before = b"\r\n$%d\r\n%b" % (len(prefix) + 8, prefix)
    # The first byte of every name, then the second: much faster than name by name.
    keys, packed = bytearray((before + bytes(8)) * len(names)), pack(names)
    for place in range(8):
        keys[len(before) + place :: len(before) + 8] = packed[place::8]
    return b"".join((b"*%d\r\n$4\r\nMGET\r\n$%d\r\n%b" % (len(names) + 2, len(key), key), keys, b"\r\n"))
