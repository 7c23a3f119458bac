"""One HTTP/1.1 connection to a replica."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import cast

import httptools

from gateway.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from gateway.relay.flow import Flow
from gateway.relay.headers import ends_with_connection, in_chunks_at_most
from gateway.relay.limits import Limits
from gateway.relay.timer import Deadline
from gateway.relay.upload import Upload
from gateway.relay.upstream import UpstreamResponse

JOIN_BYTES = 65_536
"""Up to here copying a body behind its head is cheaper than a second write."""


class Connection(Flow):
    """Carries one exchange at a time.

    free: called when an exchange is over and the connection can take another, or when it has closed, once.
    """

    def __init__(self, limits: Limits, free: Callable[["Connection"], None]) -> None:
        super().__init__(asyncio.get_running_loop())
        self.closed = False
        self.served = 0
        self.idle_since = 0.0
        self._limits = limits
        self._free = free
        self._deadline = Deadline(self._loop, self._expired)
        self._transport: asyncio.Transport | None = None
        self._response: UpstreamResponse | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._between = 0
        self._silent = True
        self._bodiless = False
        self._keep = self._paused = False
        self._sending: asyncio.Task[None] | None = None
        # The parser calls this for each part of a body; a method of ours in between would double its price.
        self.on_body = self._parts.append
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    @property
    def usable(self) -> bool:
        """It is open, as far as anybody knows."""
        return not self.closed and self._transport is not None and not self._transport.is_closing()

    async def exchange(
        self, head: bytes, body: bytes, *, bodiless: bool = False, upload: Upload | None = None
    ) -> UpstreamResponse:
        """Send a request and wait for the answer's headers.

        bodiless: the request is HEAD, so no body follows whatever the headers say.
        upload: the body; it may still be on its way when the answer comes, and ends with it.
        Raises UpstreamUnreachable if the connection is closed by now, or if it served before and closes without one
        byte of answer; UpstreamBroken, UpstreamTimeout, what an upload does. It is closed then, and by a cancellation.
        """
        assert self._response is None
        if not self.usable:
            self.abort()
            raise UpstreamUnreachable("the connection closed before the request was sent")
        assert self._transport is not None
        response = self._response = UpstreamResponse(self, self._loop)
        self._silent, self._bodiless, self._keep, self._between = True, bodiless, False, 0
        if not body:
            self._transport.write(head)
        elif len(body) <= JOIN_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        if upload is None:
            self._deadline.set(self._limits.response)
        else:
            self._sending = self._loop.create_task(self._send(upload, response))
        try:
            await response.changed()
            if not response.status:
                assert response.error is not None
                raise response.error
        except BaseException:
            self.abort()
            response.close()
            raise
        self._deadline.clear()
        return response

    def expect(self) -> None:
        """A reader starts to wait for more of the body."""
        self._deadline.set(self._limits.read)

    def resume(self) -> None:
        """A reader has taken all that had come."""
        self._deadline.clear()
        if self._paused:
            self._paused = False
            if self._transport is not None and self.usable:
                self._transport.resume_reading()

    def release(self) -> None:
        """The reader is done with the answer, complete or not."""
        response, self._response = self._response, None
        if self.closed or response is None:
            return
        assert self._transport is not None
        if not (response.ended and self._keep) or self._sending or self._transport.get_write_buffer_size():
            self.abort()
            return
        self.resume()
        self.served += 1
        self._free(self)

    def abort(self) -> None:
        """Close at once, whatever is still to be sent or received."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    async def _send(self, upload: Upload, response: UpstreamResponse) -> None:
        """Send a body as fast as the replica takes it. Waiting for the client has no deadline here: it has its own."""
        assert self._transport is not None
        failure: Exception | None = None
        try:
            while data := await upload.read():
                self._transport.write(data)
                if self.full:
                    self._until_answered(response, self._limits.read)
                    await self.drain()
                    self._until_answered(response, inf)
        except Exception as exc:
            failure = exc
        self._sending = None
        self._until_answered(response, self._limits.response)
        if failure is not None:
            self._fail(UpstreamBroken("its request broke off") if response.status else failure)

    def _until_answered(self, response: UpstreamResponse, seconds: float) -> None:
        """Set the deadline, which is the reader's once an answer has begun."""
        if not response.status:
            self._deadline.set(seconds)

    def _end(self) -> None:
        if not self.closed:
            self.closed = True
            if self._sending is not None:
                self._sending.cancel()
            self._response = self._parser = None
            self._deadline.close()
            self._free(self)

    def _expired(self) -> None:
        if self._response is not None:
            waited = "the rest of the answer" if self._response.status else "an answer"
            self._fail(UpstreamTimeout(f"no byte of {waited} within the limit"))

    def _fail(self, error: Exception) -> None:
        response = self._response
        self.abort()
        if response is not None:
            response.fail(error)

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None or self._parser is None:
            self.abort()  # nothing was asked
            return
        self._silent = False
        failure: str | None = None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            failure = str(exc)
        parts = self._parts
        if parts:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            self._between = 0
            take = response.take
            if take is None or response.ended:
                response.keep(data)
                if response.buffered > self._limits.buffer_bytes and not self._paused and self._transport is not None:
                    self._paused = True
                    self._transport.pause_reading()
            elif take(data):
                self._deadline.set(self._limits.read)
            else:
                response.take = None
        elif not response.ended:
            self._between += len(data)
            if self._between > self._limits.head_bytes:
                failure = "headers, trailers or chunk extensions over the limit"
        if failure is not None:
            self._keep = False  # if the answer was complete, this was surplus and spoils the connection alone
            if not response.ended:
                self._fail(UpstreamBroken(f"the answer is not HTTP/1.1: {failure}"))
        if response.status and (response.take is None or response.ended):
            response.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        response = self._response
        self._end()
        if response is None or response.ended:
            return
        if self._silent and self.served:
            response.fail(UpstreamUnreachable("a kept connection had been closed"))
        elif response.status and exc is None and ends_with_connection(response.headers):
            response.ended = True
            response.wake()
        else:
            response.fail(UpstreamBroken("the connection closed before the answer was complete"))

    # the parser's side

    def on_message_begin(self) -> None:
        if self._response is None or self._response.ended:
            raise ValueError("bytes after a complete answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        assert self._response is not None
        headers, self._headers = self._headers, []
        status = self._parser.get_status_code()
        if status == 101:
            raise ValueError("an upgrade nobody asked for")
        if status < 200:
            return
        self._response.status, self._response.headers = status, in_chunks_at_most(headers)
        if self._bodiless:
            self._response.ended = True  # the parser would wait for the body, so this connection is not kept

    def on_message_complete(self) -> None:
        assert self._parser is not None
        assert self._response is not None
        self._headers = []
        if self._response.status and not self._response.ended:
            self._keep = self._parser.should_keep_alive()
            self._response.ended = True
