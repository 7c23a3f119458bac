"""The connections to one replica."""

import asyncio
import ssl
from collections import deque
from socket import SO_RCVBUF, SOL_SOCKET

from gateway.errors import NoConnection, UpstreamUnreachable
from gateway.relay.h1 import Connection
from gateway.relay.headers import message_head
from gateway.relay.limits import Limits
from gateway.relay.origin import Origin
from gateway.relay.upload import Upload
from gateway.relay.upstream import RawHeaders, UpstreamResponse


class _Ticket:
    """A request's place in the queue: called with an idle connection, or with None as the right to open one."""

    __slots__ = ("called", "connection", "fresh", "waiter")

    def __init__(self, fresh: bool) -> None:
        self.fresh = fresh
        self.called = False
        self.connection: Connection | None = None
        self.waiter: asyncio.Future[None] | None = None


class Pool:
    """Keeps connections alive between requests and never opens more than `limits.connections`.

    The state is `_idle` (longest idle first), `_queue` and `_open`, and `_settle` is where they meet. The connection
    used last is used next, so that a quiet fleet needs few and the others age out.
    """

    def __init__(self, origin: Origin, limits: Limits | None = None, tls: ssl.SSLContext | None = None) -> None:
        """To be made where a loop runs. tls: for https; without one the system's authorities are trusted."""
        self.origin = origin
        self.authority = origin.authority
        self._loop = asyncio.get_running_loop()  # kept: asking for it is a system call in Python 3.11
        self._limits = limits or Limits()
        self._tls = (tls or ssl.create_default_context()) if origin.scheme == "https" else None
        self._idle: dict[Connection, None] = {}
        self._queue: deque[_Ticket] = deque()
        self._open = 0
        self._closed = False
        self._reaper: asyncio.TimerHandle | None = None

    @property
    def open(self) -> int:
        """Connections that stand or are being made."""
        return self._open

    @property
    def idle(self) -> int:
        return len(self._idle)

    @property
    def in_use(self) -> int:
        return self._open - len(self._idle)

    @property
    def queued(self) -> int:
        """Requests that wait for a connection."""
        return len(self._queue)

    async def send(
        self, method: bytes, target: bytes, headers: RawHeaders, body: bytes = b"", upload: Upload | None = None
    ) -> UpstreamResponse:
        """Send a request and wait for the answer's headers. The caller closes the response.

        headers: all that go on the wire, Host and Content-Length too. upload: in place of a body.
        Raises UpstreamUnreachable when nothing was done there, UpstreamBroken, UpstreamTimeout, what an upload raises.
        Cancelled, it closes its connection, so that the engine stops.
        """
        head = message_head(b"%b %b HTTP/1.1" % (method, target), headers)
        bodiless = method == b"HEAD"
        if upload is not None:  # it can be sent once, so not where a used connection may be closed by now
            connection = await self._acquire(fresh=True)
            return await connection.exchange(head, b"", upload=upload)
        connection = self._ready() or await self._acquire(fresh=False)
        try:
            return await connection.exchange(head, body, bodiless=bodiless)
        except UpstreamUnreachable:  # kept alive by us, but not by the replica
            connection = await self._acquire(fresh=True)
            return await connection.exchange(head, body, bodiless=bodiless)

    def close(self) -> None:
        """Close what is idle, refuse what waits or comes; what is in use closes after its answer."""
        self._closed = True
        for ticket in self._queue:
            if ticket.waiter is not None and not ticket.waiter.done():
                ticket.waiter.set_exception(NoConnection("the replica has left"))
        self._reap()

    def _ready(self) -> Connection | None:
        """The youngest idle connection, if nobody waits for it and it is not past its age: `_settle` in short."""
        if self._queue or not self._idle:
            return None
        connection, _ = self._idle.popitem()
        if connection.usable and connection.idle_since > self._horizon():
            return connection
        connection.abort()
        return None

    def _settle(self) -> list[Connection]:
        """Match those who wait with what is free, in the order in which they came.

        1. One that may have a used connection gets the youngest idle one, if that is not past its age.
        2. Any gets the right to open one while there is room, which the oldest idle one may have to make.
        3. Nothing is free, so the rest waits.

        Returns the connections to close; they are out of the pool's state already.
        """
        leaving: list[Connection] = []
        while self._queue and not self._closed:
            ticket = self._queue[0]
            if self._idle and not ticket.fresh:
                connection, _ = self._idle.popitem()
                if not connection.usable or connection.idle_since <= self._horizon():
                    leaving.append(connection)
                    continue
                ticket.connection = connection
            elif self._open - len(leaving) < self._limits.connections:
                self._open += 1
            elif self._idle:
                leaving.append(self._pop_oldest())
                continue
            else:
                break
            self._queue.popleft()
            ticket.called = True
            if ticket.waiter is not None and not ticket.waiter.done():
                ticket.waiter.set_result(None)
        return leaving

    def _horizon(self) -> float:
        """Connections idle since then or longer are past their age."""
        return self._loop.time() - self._limits.keep_alive

    def _pop_oldest(self) -> Connection:
        oldest = next(iter(self._idle))
        del self._idle[oldest]
        return oldest

    def _act(self, leaving: list[Connection]) -> None:
        for connection in leaving:
            connection.abort()

    def _reap(self) -> None:
        """Close the idle connections past their age, or all of them in a closed pool, and come back for the others."""
        horizon = self._horizon()
        leaving: list[Connection] = []
        while self._idle and (self._closed or next(iter(self._idle)).idle_since <= horizon):
            leaving.append(self._pop_oldest())
        self._reaper = None
        if self._idle:
            due = next(iter(self._idle)).idle_since + self._limits.keep_alive
            self._reaper = self._loop.call_at(due, self._reap)
        self._act(leaving)

    def _freed(self, connection: Connection) -> None:
        """A connection's exchange is over, or it has closed."""
        if connection.closed:
            self._open -= 1
            self._idle.pop(connection, None)
        else:
            connection.idle_since = self._loop.time()
            self._idle[connection] = None
            if self._closed:
                self._reap()
            elif self._reaper is None:
                self._reaper = self._loop.call_later(self._limits.keep_alive, self._reap)
        if self._queue:
            self._act(self._settle())

    async def _acquire(self, *, fresh: bool) -> Connection:
        """A connection that is this caller's alone; one that nobody has used before if `fresh`."""
        while not self._closed:
            ticket = _Ticket(fresh)
            self._queue.append(ticket)
            self._act(self._settle())
            if not ticket.called:
                await self._wait(ticket)
            if ticket.connection is None:
                return await self._connect()
            if ticket.waiter is None or ticket.connection.usable:  # it may have closed on the way from the queue
                return ticket.connection
        raise NoConnection("the replica has left")

    async def _wait(self, ticket: _Ticket) -> None:
        ticket.waiter = self._loop.create_future()
        try:
            async with asyncio.timeout(self._limits.acquire):
                await ticket.waiter
        except BaseException as exc:
            if not ticket.called:
                self._queue.remove(ticket)
            elif ticket.connection is None:
                self._open -= 1
                self._act(self._settle())
            elif not ticket.connection.closed:
                self._freed(ticket.connection)
            if isinstance(exc, TimeoutError):
                raise NoConnection("no free connection within the limit") from exc
            raise

    async def _connect(self) -> Connection:
        """Open the connection whose place is taken already."""
        connection = Connection(self._limits, self._freed)
        origin = self.origin
        try:
            async with asyncio.timeout(self._limits.connect):
                transport, _ = await self._loop.create_connection(
                    lambda: connection,
                    origin.host,
                    origin.port,
                    ssl=self._tls,
                    server_hostname=origin.host if self._tls else None,
                )
                # Left to itself the system would keep megabytes of each answer that its client does not read.
                sock = transport.get_extra_info("socket")
                sock.setsockopt(SOL_SOCKET, SO_RCVBUF, self._limits.buffer_bytes)
        except BaseException as exc:
            connection.abort()
            if isinstance(exc, OSError):
                raise UpstreamUnreachable(f"cannot connect: {exc or 'no answer within the limit'}") from exc
            raise
        return connection
