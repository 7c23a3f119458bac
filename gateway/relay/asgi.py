"""ASGI on either side: an ASGI application behind our server, and a client in front of us behind any ASGI server."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, runtime_checkable

from starlette.requests import ClientDisconnect

from gateway.errors import BodyTooLarge, ClientGone
from gateway.relay.client import Peer
from gateway.relay.exchange import Exchange
from gateway.relay.upstream import RawHeaders

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_ASGI = {"version": "3.0", "spec_version": "2.3"}


@runtime_checkable
class Direct(Protocol):
    """An ASGI application that takes an exchange as it is where it can: without ASGI a request costs less."""

    def answer(self, exchange: Exchange, asgi: Callable[[Exchange], Awaitable[None]]) -> Awaitable[None]:
        """Answer it. asgi: does so through the application's ASGI side."""
        ...


def connection_scope(transport: asyncio.BaseTransport) -> Scope:
    """What ASGI says of all requests of a connection."""
    server, client = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    return {
        "type": "http",
        "asgi": _ASGI,
        "root_path": "",
        "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
        "server": tuple(server[:2]) if isinstance(server, tuple) else None,
        "client": tuple(client[:2]) if isinstance(client, tuple) else None,
    }


def answerer(app: Any, connection: Scope, state: Mapping[str, Any]) -> Callable[[Exchange], Awaitable[None]]:
    """What answers the requests of a connection. state: the application's own, for ASGI."""
    if state:
        connection["state"] = state
    asgi = partial(run_asgi, app, connection)
    return partial(app.answer, asgi=asgi) if isinstance(app, Direct) else asgi


def peer_of(scope: Scope) -> Peer:
    """Where a connection comes from."""
    client = scope.get("client")
    return client[0].encode("ascii", "replace") if client else b"unknown", scope.get("scheme", "http").encode("ascii")


async def run_asgi(app: AsgiApp, connection: Scope, exchange: Exchange) -> None:
    """Let an ASGI application answer. connection: its `connection_scope`."""
    raw_path, _, query = exchange.target.partition(b"?")
    scope = {
        **connection,
        "http_version": exchange.version,
        "method": exchange.method,
        "path": exchange.path,
        "raw_path": raw_path,
        "query_string": query,
        "headers": exchange.headers,
    }
    body_taken = False

    async def receive() -> Message:
        """The body as it comes, then the hang-up or the end of the answer, whichever is first."""
        nonlocal body_taken
        while not (exchange.complete or exchange.gone):
            data = exchange.take()
            if not body_taken and (data or exchange.body_ended):
                body_taken = exchange.body_ended
                return {"type": "http.request", "body": data, "more_body": not body_taken}
            await exchange.changed()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        """Waits while the client is slow, returns at once when it has gone."""
        if message["type"] == "http.response.start":
            exchange.start(message["status"], message.get("headers", ()))
            return
        await exchange.drain()
        exchange.write(message.get("body", b""), more=message.get("more_body", False))

    with suppress(ClientDisconnect):  # Starlette's, for a body that did not come to its end
        await app(scope, receive, send)


class AsgiClient:
    """A `Client` for an ASGI server's `scope`, `receive` and `send`.

    What is written waits for the next `drain`, so one must follow the last part. An ASGI server answers `receive` once
    the response is complete, which ends the task that waits for the hang-up.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        query: bytes = scope["query_string"]
        self.target: bytes = b"%b?%b" % (scope["raw_path"], query) if query else scope["raw_path"]
        self.headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        self.fields: Mapping[bytes, bytes] = dict(reversed(self.headers))
        self.peer: Peer = peer_of(scope)
        self.gone = False
        self._receive = receive
        self._send = send
        self._complete = False
        self._pending: list[Message] = []
        self._hung_up: Callable[[], None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def body(self, limit: int) -> bytes:
        parts, size = [], 0
        while part := await self.part():
            parts.append(part)
            size += len(part)
            if size > limit:
                raise BodyTooLarge(f"The request body has more than the limit of {limit} bytes.")
        return b"".join(parts)

    async def part(self) -> bytes:
        while self._watcher is None:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.gone = True
                raise ClientGone
            if not message.get("more_body", False):
                self._watcher = asyncio.create_task(self._watch())
            if data := message.get("body", b""):
                return bytes(data)
        return b""

    def start(self, status: int, headers: RawHeaders) -> None:
        self._pending.append({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, data: bytes, *, more: bool) -> bool:
        self._pending.append({"type": "http.response.body", "body": data, "more_body": more})
        self._complete = not more
        return False

    async def drain(self) -> None:
        pending, self._pending = self._pending, []
        for message in pending:
            await self._send(message)

    def on_hang_up(self, callback: Callable[[], None]) -> None:
        self._hung_up = callback
        if self.gone:
            callback()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._complete:
            self.gone = True
            if self._hung_up is not None:
                self._hung_up()
