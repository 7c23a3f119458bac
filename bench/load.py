"""A load generator that costs little: raw HTTP/1.1 over kept connections, nothing parsed but the end of each answer."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

_CHUNK = b"data: "
_STREAM_END = b"\r\n0\r\n\r\n"


class Client(asyncio.Protocol):
    """Sends one request after the other, the next as soon as the last is answered, until told to stop."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self.answers = 0
        self.chunks = 0
        self.failures = 0
        self.stopping = False
        self.closed = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._transport: asyncio.Transport | None = None
        self._left = 0
        self._in_body = False
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(next(self._requests))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.stopping:
            self.failures += 1
        if not self.closed.done():
            self.closed.set_result(None)

    def stop(self) -> None:
        """Hang up."""
        self.stopping = True
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._in_body:
            data = self._tail + data
            head_end = data.find(b"\r\n\r\n") + 4
            if head_end < 4:
                self._tail = data
                return
            self._tail = b""
            self._in_body = True
            if not data.startswith(b"HTTP/1.1 200"):
                self.failures += 1
            at = data.lower().find(b"content-length: ", 0, head_end)
            self._left = int(data[at + 16 : data.find(b"\r", at)]) if at >= 0 else -1
            data = data[head_end:] if self._left >= 0 else data[head_end - 2 :]
        if self._left >= 0:
            self._left -= len(data)
            if self._left <= 0:
                self._next()
            return
        seen = self._tail + data
        self.chunks += seen.count(_CHUNK) - self._tail.count(_CHUNK)
        self._tail = seen[-len(_STREAM_END) :]
        if self._tail == _STREAM_END:
            self._tail = b""
            self._next()

    def _next(self) -> None:
        self.answers += 1
        self._in_body = False
        if self._transport is not None and not self.stopping:
            self._transport.write(next(self._requests))


class Load:
    """So many clients at once against one port. requests: what the client of a number sends."""

    def __init__(self, port: int, requests: Callable[[int], Iterator[bytes]], clients: int) -> None:
        self._port = port
        self._requests = requests
        self._wanted = clients
        self._clients: Sequence[Client] = ()

    async def __aenter__(self) -> "Load":
        loop = asyncio.get_running_loop()
        made = []
        for number in range(self._wanted):
            requests = self._requests(number)
            _, client = await loop.create_connection(partial(Client, requests), "127.0.0.1", self._port)
            made.append(client)
        self._clients = made
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for client in self._clients:
            client.stop()
        await asyncio.gather(*(client.closed for client in self._clients))

    @property
    def answers(self) -> int:
        """Complete so far."""
        return sum(client.answers for client in self._clients)

    @property
    def chunks(self) -> int:
        """Events of streams so far."""
        return sum(client.chunks for client in self._clients)

    @property
    def failures(self) -> int:
        """Answers that were not 200, and connections that closed."""
        return sum(client.failures for client in self._clients)
