"""A client's HTTP/1.1 connection: uvicorn's own does the same at twice the price."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.server import ServerState

from gateway.relay.asgi import answerer, connection_scope, peer_of
from gateway.relay.client import Peer
from gateway.relay.connections import Connections
from gateway.relay.exchange import Exchange
from gateway.relay.flow import Flow, dropped
from gateway.relay.patience import Patience
from gateway.relay.status import whole_answer


class ServerProtocol(Flow):
    """For uvicorn's `http=`. Requests of one connection are answered one after the other.

    uvicorn's settings that count: `timeout_keep_alive`, and those of the server itself. An offer to upgrade is ignored
    (RFC 9110 7.8) and the request served as any other: Java's client offers HTTP/2 with each first request.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        connections: Connections | None = None,
    ) -> None:
        self._connections = connections or Connections()
        super().__init__(_loop or asyncio.get_running_loop(), self._connections.answer)
        self.peer: Peer = (b"", b"")
        self._app = config.loaded_app
        self._server = server_state
        self._app_state = app_state
        self._patience = Patience(self._loop, self._connections, config.timeout_keep_alive, self._expired)
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self.write: Callable[[bytes], None] = dropped
        self._answer: Callable[[Exchange], Awaitable[None]] | None = None
        self._running: Exchange | None = None
        self._reading: Exchange | None = None
        self._queue: deque[Exchange] = deque()
        self._paused = self._may_stay = self._in_head = False
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._between = self._unparsed = 0

    def shutdown(self) -> None:
        """uvicorn's: answer what is being answered and close."""
        if self._running is None:
            self._close()
        else:
            self._running.keep_alive = False

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.write = self._transport.write
        self._server.connections.add(cast(Any, self))
        scope = connection_scope(transport)
        self.peer = peer_of(scope)
        self._may_stay = self._connections.opened(self.peer[0])
        if not self._may_stay:
            self._refuse(429, "Too many connections from one address.", "per_address")
            return
        self._answer = answerer(self._app, scope, self._app_state)
        self._patience.for_the_first()

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            self._take_unparsed(data)
            return
        self._between += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._leave_parser(data[exc.args[0] :])
        except httptools.HttpParserError as exc:
            self._refuse(400, f"The request can't be read: {exc.__context__ or exc}.", "malformed")
        else:
            if self._between > Connections.HEAD_BYTES:
                self._refuse(431, "The request's head is over the limit.", "head_size")
            elif self._in_head:
                self._patience.for_a_head()
            elif self._reading is not None and not self._reading.body_ended:
                self._patience.for_a_body(len(data), paused=self._paused)

    def stalled(self) -> None:
        self._connections.refused("answer_time")
        self.cut()

    def connection_lost(self, exc: Exception | None) -> None:
        self.write = dropped
        self._server.connections.discard(cast(Any, self))
        if self._may_stay:
            self._connections.closed(self.peer[0])
        self._patience.close()
        self.resume_writing()
        for exchange in (self._running, *self._queue):
            if exchange is not None:
                exchange.disconnect()
        self._queue.clear()
        self._parser = self._running = self._reading = None

    # the parser's side

    def on_message_begin(self) -> None:
        self._in_head, self._url, self._headers = True, b"", []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        self._patience.satisfied()
        self._in_head, self._between = False, 0
        version = parser.get_http_version()
        keep_alive = version != "1.0" and parser.should_keep_alive()
        headers, self._headers = self._headers, []  # where trailers go
        self._reading = Exchange(
            self, self._loop, parser.get_method(), self._url, version, headers, keep_alive=keep_alive
        )
        if self._running is None:
            self._run(self._reading)
        else:
            self._queue.append(self._reading)
            self._pause()

    def on_body(self, body: bytes) -> None:
        self._between = 0
        if self._reading is not None:
            self._reading.feed(body)
            if self._reading.buffered > Connections.BODY_BYTES:
                self._pause()

    def on_message_complete(self) -> None:
        assert self._parser is not None
        self._between = 0
        self._patience.satisfied()
        if self._reading is not None and not self._parser.should_upgrade():
            self._reading.end_body()

    # the exchange's side

    def resume(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()
            self._patience.resumed()

    def answered(self, exchange: Exchange) -> None:
        self._server.total_requests += 1
        self._running = None
        if not exchange.keep_alive:
            self._close_behind(exchange)
        elif self._queue:
            self._run(self._queue.popleft())
        else:
            self._patience.for_the_next()
        if not self._queue:
            self.resume()

    def left(self, exchange: Exchange) -> None:
        if exchange.task is not None:
            self._server.tasks.discard(exchange.task)

    def cut(self) -> None:
        self.write = dropped
        if self._transport is not None:
            self._transport.abort()

    def _run(self, exchange: Exchange) -> None:
        self._running = exchange
        assert self._answer is not None
        exchange.task = task = self._loop.create_task(exchange.run(self._answer))
        self._server.tasks.add(task)

    def _pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _refuse(self, status: int, message: str, reason: str) -> None:
        """What came is no request: read no more, and say so if nothing else is being said."""
        self._connections.refused(reason)
        self._parser = None
        self._queue.clear()
        running, reading = self._running, self._reading
        if running is not None and (running is not reading or running.body_ended):
            running.keep_alive = False
            return
        if running is None or not running.started:
            self.write(whole_answer(status, message, "invalid_request_error", reason))
        if running is not None:
            running.disconnect()
        self._close()

    def _leave_parser(self, rest: bytes) -> None:
        """An upgrade is offered. The parser stops there, so this request's body is counted out, and it is the last."""
        self._parser = None
        assert self._reading is not None
        self._reading.keep_alive = False
        fields = self._reading.fields
        if b"transfer-encoding" in fields:
            self._refuse(501, "A body in chunks is not read where an upgrade is offered.", "malformed")
            return
        self._unparsed = int(fields.get(b"content-length") or 0)
        self._take_unparsed(rest)

    def _take_unparsed(self, data: bytes) -> None:
        if self._reading is None or self._reading.body_ended:
            return
        part = data[: self._unparsed]
        self._unparsed -= len(part)
        if part:
            self.on_body(part)
        if not self._unparsed:
            self._reading.end_body()

    def _close(self) -> None:
        self.write = dropped
        if self._transport is not None:
            self._transport.close()

    def _close_behind(self, exchange: Exchange) -> None:
        """Drop the rest of a request before closing: closed at once, the connection is reset and the answer lost."""
        if exchange.body_ended:
            self._close()
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()
            self.write, self._parser = dropped, None
            self._loop.call_later(Connections.LINGER, self._close)

    def _expired(self, reason: str | None) -> None:
        if reason is not None:
            self._refuse(408, "The request did not come in time.", reason)
        elif self._running is None:
            self.cut()  # with what it has not taken, if there is anything
