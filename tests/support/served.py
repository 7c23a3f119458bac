"""The gateway's HTTP server around an application on a real socket, and applications for it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from gateway.relay.asgi import Receive, Send
from gateway.relay.exchange import Exchange
from gateway.relay.server import ServerProtocol

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
DEADLINE = 5.0
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def part(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def body_of(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        assert message["type"] == "http.request"
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await body_of(receive)
    await send(start(200, (b"content-length", b"%d" % len(body))))
    await send(part(body))


async def chunks(scope: Scope, receive: Receive, send: Send) -> None:
    await send(start(200, (b"x-a", b"1")))
    await send(part(b"he", more=True))
    await send(part(b"", more=True))
    await send(part(b"llo", more=True))
    await send(part(b""))


@dataclass
class Direct:
    """An application that takes exchanges as they are, but for `/asgi`."""

    work: Callable[[Exchange], Awaitable[None]]
    asgi: App = echo

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.asgi(scope, receive, send)

    async def answer(self, exchange: Exchange, asgi: Callable[[Exchange], Awaitable[None]]) -> None:
        await (asgi(exchange) if exchange.path == "/asgi" else self.work(exchange))


@dataclass
class Front:
    """The protocol around an application on a real socket."""

    app: App
    keep_alive: float = 5.0
    state: ServerState = field(default_factory=ServerState)
    scopes: list[Scope] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    server: asyncio.Server | None = None

    async def start(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            self.scopes.append(scope)
            await self.app(scope, receive, send)

        served = self.app if isinstance(self.app, Direct) else app
        config = uvicorn.Config(served, ws="none", lifespan="off", proxy_headers=False, log_config=None)
        config.timeout_keep_alive = self.keep_alive  # type: ignore[assignment]
        config.load()
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(
            lambda: ServerProtocol(config, self.state, {"made": "once"}, loop), "127.0.0.1", 0
        )

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self.server is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.sockets[0].getsockname()[1])
        self.writers.append(writer)
        return reader, writer

    async def say(self, data: bytes, step: int = 0) -> bytes:
        """Send on a new connection, and read until the gateway closes."""
        reader, writer = await self.connect()
        answer = bytearray()

        async def read() -> None:
            with contextlib.suppress(ConnectionError):  # it may close while we are still sending
                while part := await reader.read(65536):
                    answer.extend(part)

        reading = asyncio.create_task(read())
        for at in range(0, len(data), step or len(data)):
            if reading.done() or writer.is_closing():
                break
            writer.write(data[at : at + (step or len(data))])
            if step:
                await asyncio.sleep(0)
        await reading
        return bytes(answer)

    async def quiet(self) -> None:
        end = asyncio.get_running_loop().time() + DEADLINE
        while self.state.connections or self.state.tasks:
            assert asyncio.get_running_loop().time() < end, (self.state.connections, self.state.tasks)
            await asyncio.sleep(0.002)


Make = Callable[..., Awaitable[Front]]
"""serves an application, with options of `Front`"""
