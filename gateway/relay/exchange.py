"""One request and its answer on a client's connection."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import unquote

from gateway.errors import BodyTooLarge, ClientGone
from gateway.relay.client import Peer
from gateway.relay.headers import message_head, origin_form
from gateway.relay.status import FAILED, STATUS_LINES
from gateway.relay.upstream import RawHeaders

logger = logging.getLogger(__name__)


class Line(Protocol):
    """What an exchange asks of the client's connection."""

    full: bool
    peer: Peer
    write: Callable[[bytes], None]
    """drops what is written after the end"""

    async def drain(self) -> None: ...
    def resume(self) -> None: ...
    def answered(self, exchange: "Exchange") -> None: ...
    def left(self, exchange: "Exchange") -> None: ...
    def cut(self) -> None: ...


class Exchange:
    """A `Client`, as the parser describes it.

    What the application does not answer becomes a 500; what it answers in part, a connection that is cut.
    """

    __slots__ = (
        "_bodiless", "_chunked", "_head", "_hung_up", "_left", "_line", "_loop", "_parts", "_waiter",
        "awaits_continue", "body_ended", "buffered", "complete", "fields", "gone", "headers", "keep_alive", "method",
        "path", "peer", "started", "target", "task", "version",
    )  # fmt: skip

    def __init__(
        self,
        line: Line,
        loop: asyncio.AbstractEventLoop,
        method: bytes,
        target: bytes,
        version: str,
        headers: list[tuple[bytes, bytes]],
        *,
        keep_alive: bool,
    ) -> None:
        """target: of the request line. headers: names in lower case.

        Raises ValueError for a path not ASCII, for no host or two, and for a transfer coding other than chunked.
        """
        self.method = method.decode("ascii")
        self.target = target if target.startswith(b"/") else origin_form(target)
        path = self.target.partition(b"?")[0].decode("ascii")
        self.path = unquote(path) if "%" in path else path
        self.version = version
        self.headers = headers
        self.fields: Mapping[bytes, bytes] = dict(reversed(headers))
        if b"host" not in self.fields and version != "1.0":
            raise ValueError("no host")
        if len(self.fields) < len(headers) and [name for name, _ in headers].count(b"host") > 1:
            raise ValueError("two hosts")
        # Of another one only the chunks would be taken off, and the rest go on as if it were plain.
        if self.fields.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            raise ValueError("a transfer coding that is not read")
        self.task: asyncio.Task[None] | None = None
        self.keep_alive = keep_alive
        self.awaits_continue = self.fields.get(b"expect", b"").lower() == b"100-continue"
        self.body_ended = False
        self.buffered = 0
        self.started = False
        self.complete = False
        self.gone = False
        self.peer = line.peer
        self._line = line
        self._loop = loop
        self._parts: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._hung_up: Callable[[], None] | None = None
        self._head = b""
        self._chunked = False
        self._bodiless = False
        self._left: int | None = None

    async def run(self, answer: Callable[["Exchange"], Awaitable[None]]) -> None:
        """Let the application answer."""
        try:
            await answer(self)
        except Exception:
            logger.exception("the application failed")
        finally:
            if not (self.complete or self.gone):
                self._give_up()
            self._hung_up = None
            self._line.left(self)

    async def body(self, limit: int) -> bytes:
        stated = int(self.fields.get(b"content-length", b"0"))  # the parser takes nothing but digits
        if stated > limit:
            raise BodyTooLarge(f"The request body has {stated} bytes, the limit is {limit}.")
        parts, size = [], 0
        while not self.gone:
            ended = self.body_ended
            parts.append(self.take())
            size += len(parts[-1])
            if size > limit:
                raise BodyTooLarge(f"The request body has more than the limit of {limit} bytes.")
            if ended:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            await self.changed()
        raise ClientGone

    async def part(self) -> bytes:
        while not self.gone:
            ended = self.body_ended
            if (data := self.take()) or ended:
                return data
            await self.changed()
        raise ClientGone

    def take(self) -> bytes:
        """What has come of the body and was not taken yet."""
        if self.body_ended:
            self.awaits_continue = False
        elif self.awaits_continue:
            self.awaits_continue = False
            self._line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self.buffered = 0
        if not self.body_ended:
            self._line.resume()
        return data

    async def changed(self) -> None:
        """Wait until more of the body has come or its end, the answer is complete, or the client has gone."""
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def start(self, status: int, headers: RawHeaders) -> None:
        if self.gone:
            return
        if self.awaits_continue and not self.body_ended:
            self.keep_alive = False  # the body may be left out now, and the next request would be taken for it
        self.awaits_continue = False
        self._bodiless = self.method == "HEAD" or status in (204, 304)
        framing = []
        for name, value in headers:
            if name == b"content-length":
                self._left = int(value)
            elif name == b"connection" and b"close" in value.lower():
                self.keep_alive = False
        if self._left is None and not self._bodiless:
            if self.version == "1.0":
                self.keep_alive = False
            else:
                self._chunked = True
                framing.append((b"transfer-encoding", b"chunked"))
        if not self.keep_alive:
            framing.append((b"connection", b"close"))
        first_line = STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status
        self._head = message_head(first_line, [*headers, *framing] if framing else headers)
        self.started = True

    def write(self, data: bytes, *, more: bool) -> bool:
        """Raises RuntimeError for a body that is not of the stated length, and after the last part."""
        if self.gone:
            return True
        if self.complete:
            raise RuntimeError("the answer is complete already")
        if self._chunked:
            if data:
                data = b"%x\r\n%b\r\n" % (len(data), data)
            if not more:
                data += b"0\r\n\r\n"
        elif self._bodiless:
            data = b""
        elif self._left is not None:
            self._left -= len(data)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the answer's body has not the length that its head says")
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._line.write(data)
        if not more:
            self._end()
        return not self._line.full

    async def drain(self) -> None:
        if self._line.full and not self.complete:
            await self._line.drain()

    def on_hang_up(self, callback: Callable[[], None]) -> None:
        self._hung_up = callback
        if self.gone:
            callback()

    def feed(self, data: bytes) -> None:
        """A part of the request's body has come."""
        if not self.complete:
            self._parts.append(data)
            self.buffered += len(data)
            self._wake()

    def end_body(self) -> None:
        """The request is complete."""
        self.body_ended = True
        self._wake()

    def disconnect(self) -> None:
        """The client has gone."""
        self.gone = True
        if self._hung_up is not None:
            self._hung_up()
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _end(self) -> None:
        """The answer is complete. What is still to come of the request's body is read and dropped."""
        self.complete = True
        self._parts.clear()
        self.buffered = 0
        self._wake()
        self._line.answered(self)

    def _give_up(self) -> None:
        if self.started and not self._head:
            self._line.cut()
            return
        self.keep_alive = False
        self._line.write(FAILED)
        self._end()
