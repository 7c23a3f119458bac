"""A replica's answer: filled by its connection as bytes come, read by whoever passes it on."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.errors import UpstreamBroken

RawHeaders = Sequence[tuple[bytes, bytes]]


class Source(Protocol):
    """What an answer asks of the connection that fills it."""

    def expect(self) -> None: ...
    def resume(self) -> None: ...
    def release(self) -> None: ...


class UpstreamResponse:
    """Status and raw headers, then the body part by part. Belongs to one reader, who must `close` it.

    ended: the body is complete; what has come and was not read yet is the rest of it.
    error: why it will never be.
    take: gets what comes while `pour` waits; None once it has had enough.
    """

    __slots__ = ("_loop", "_parts", "_source", "_waiter", "buffered", "ended", "error", "headers", "status", "take")

    def __init__(self, source: Source, loop: asyncio.AbstractEventLoop) -> None:
        self.status = 0
        self.headers: RawHeaders = ()
        self.ended = False
        self.buffered = 0
        self._source: Source | None = source
        self._loop = loop
        self._parts: list[bytes] = []
        self.take: Callable[[bytes], bool] | None = None
        self.error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """The body that has come since the last read, as soon as there is any.

        Returns b"" at the end.
        Raises UpstreamBroken or UpstreamTimeout, after all that came before was read.
        """
        while not self._parts:
            if self.ended:
                return b""
            await self._more()
        return self._taken()

    def rest(self) -> bytes:
        """What was not read yet of a body that has ended."""
        return self._taken() if self._parts else b""

    async def pour(self, take: Callable[[bytes], bool]) -> bytes | None:
        """Give `take` what comes of the body, at once and with no task in between, until it returns False.

        Returns the end of the body, which `take` did not get, or None if `take` wants no more for now.
        Raises as `read` does.
        """
        while True:
            if self._parts:
                data = self._taken()
                if self.ended:
                    return data
                if not take(data):
                    return None
            elif self.ended:
                return b""
            else:
                self.take = take
                try:
                    await self._more()
                    if self.take is None:
                        return None
                finally:
                    self.take = None

    def close(self) -> None:
        """Give the connection back if the answer is complete, else cut it so that the engine sees the hang-up."""
        self.error = None  # raised, it holds all that was running then, and so this answer
        source, self._source = self._source, None
        if source is not None:
            source.release()

    def changed(self) -> asyncio.Future[None]:
        """Done with the connection's next `wake`."""
        self._waiter = self._loop.create_future()
        return self._waiter

    def keep(self, data: bytes) -> None:
        """A part of the body has come, and nobody takes it for now."""
        self._parts.append(data)
        self.buffered += len(data)

    def fail(self, error: Exception) -> None:
        """Nothing more will come, and it is not the end."""
        if not self.ended and self.error is None:
            self.error = error
            self.wake()

    def wake(self) -> None:
        """Let the reader look again."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _taken(self) -> bytes:
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self.buffered = 0
        if self._source is not None:
            self._source.resume()
        return data

    async def _more(self) -> None:
        """Wait for more of the body, or for its end."""
        if self.error is not None:
            raise self.error
        if self._source is None:
            raise UpstreamBroken("the response was closed")
        self._source.expect()
        await self.changed()
