"""One request and its answer, between a client's connection and the ASGI application."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol

from gateway.relay.headers import message_head
from gateway.relay.scope import Scope
from gateway.relay.upstream import RawHeaders
from gateway.relay.watch import HANG_UP, Message, Receive, Send

logger = logging.getLogger(__name__)

Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_STATUS_LINES: dict[int, bytes] = {status: f"HTTP/1.1 {status} {status.phrase}".encode() for status in HTTPStatus}
_FAILED = b'{"error":{"message":"The gateway failed.","type":"api_error","param":null,"code":"internal_error"}}'
_FAILED_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_FAILED))]


class Line(Protocol):
    """What an exchange asks of the client's connection."""

    full: bool

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def resume(self) -> None: ...
    def answered(self, exchange: "Exchange") -> None: ...
    def left(self, exchange: "Exchange") -> None: ...
    def cut(self) -> None: ...


class Exchange:
    """`receive` and `send` of one request.

    The head of an answer goes out with the first part of its body, in one write; an empty part sends it on its own.
    What the application does not answer becomes a 500; what it answers in part, a connection that is cut.
    """

    __slots__ = (
        "_awaits_continue",
        "_bodiless",
        "_body_taken",
        "_chunked",
        "_head",
        "_hung_up",
        "_left",
        "_line",
        "_loop",
        "_parts",
        "_waiter",
        "body_ended",
        "buffered",
        "complete",
        "disconnected",
        "keep_alive",
        "scope",
        "started",
        "task",
    )

    def __init__(
        self, line: Line, loop: asyncio.AbstractEventLoop, scope: Scope, *, keep_alive: bool, awaits_continue: bool
    ) -> None:
        self.scope = scope
        scope["extensions"] = {HANG_UP: self.on_hang_up}
        self.task: asyncio.Task[None] | None = None
        self.keep_alive = keep_alive
        self.body_ended = False
        self.buffered = 0
        self.complete = False
        self.disconnected = False
        self._line = line
        self._loop = loop
        self._awaits_continue = awaits_continue
        self._parts: list[bytes] = []
        self._body_taken = False
        self._waiter: asyncio.Future[None] | None = None
        self._hung_up: Callable[[], None] | None = None
        self.started = False
        self._head = b""
        self._chunked = False
        self._bodiless = False
        self._left: int | None = None

    async def run(self, app: Application) -> None:
        """Let the application answer."""
        try:
            await app(self.scope, self.receive, self.send)
        except Exception:
            logger.exception("the application failed")
        finally:
            if not (self.complete or self.disconnected):
                self._give_up()
            self._hung_up = None
            self.scope = {}  # which refers to this exchange
            self._line.left(self)

    async def receive(self) -> Message:
        """ASGI: the body as it comes, then the hang-up or the end of the answer, whichever is first."""
        if self._awaits_continue:
            self._awaits_continue = False
            self._line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self.complete or self.disconnected):
            if not self._body_taken and (self._parts or self.body_ended):
                body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts.clear()
                self.buffered = 0
                self._body_taken = self.body_ended
                if not self.body_ended:
                    self._line.resume()
                return {"type": "http.request", "body": body, "more_body": not self.body_ended}
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """ASGI. Waits while the client is slow, returns at once when it has gone."""
        if self._line.full:
            await self._line.drain()
        if self.disconnected:
            return
        if not self.started:
            self._start(message["status"], message.get("headers", ()))
            return
        if self.complete:
            raise RuntimeError("the answer is complete already")
        body, more = message.get("body", b""), message.get("more_body", False)
        data = self._framed(body, more) if not self._bodiless else b""
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._line.write(data)
        if not more:
            self._end()

    def on_hang_up(self, callback: Callable[[], None]) -> None:
        """Have `callback` called at once when the client goes before the answer is complete."""
        self._hung_up = callback
        if self.disconnected:
            callback()

    def feed(self, data: bytes) -> None:
        """A part of the request's body has come."""
        if not self.complete:
            self._parts.append(data)
            self.buffered += len(data)
            self.wake()

    def end_body(self) -> None:
        """The request is complete."""
        self.body_ended = True
        self.wake()

    def disconnect(self) -> None:
        """The client has gone."""
        self.disconnected = True
        if self._hung_up is not None:
            self._hung_up()
        self.wake()

    def wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _end(self) -> None:
        """The answer is complete. What is still to come of the request's body is read and dropped."""
        self.complete = True
        self._parts.clear()
        self.buffered = 0
        self.wake()
        self._line.answered(self)

    def _start(self, status: int, headers: RawHeaders) -> None:
        self._awaits_continue = False
        self._bodiless = self.scope["method"] == "HEAD" or status in (204, 304)
        framing = []
        for name, value in headers:
            if name == b"content-length":
                self._left = int(value)
            elif name == b"connection" and b"close" in value.lower():
                self.keep_alive = False
        if self._left is None and not self._bodiless:
            if self.scope["http_version"] == "1.0":
                self.keep_alive = False
            else:
                self._chunked = True
                framing.append((b"transfer-encoding", b"chunked"))
        if not self.keep_alive:
            framing.append((b"connection", b"close"))
        first_line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status
        self._head = message_head(first_line, [*headers, *framing] if framing else headers)
        self.started = True

    def _framed(self, body: bytes, more: bool) -> bytes:
        """A part of the answer's body as it goes on the wire. Raises RuntimeError if it is not of the stated length."""
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return data if more else data + b"0\r\n\r\n"
        if self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the answer's body has not the length that its head says")
        return body

    def _give_up(self) -> None:
        if self.started and not self._head:
            self._line.cut()
            return
        self.keep_alive = False
        self._line.write(message_head(_STATUS_LINES[500], [*_FAILED_HEADERS, (b"connection", b"close")]) + _FAILED)
        self._end()
