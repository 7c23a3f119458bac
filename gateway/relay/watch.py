"""Notices that a client has hung up while its request waits for something else."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientGone(Exception):
    """The client hung up; nobody is there to answer."""


class ClientWatch:
    """From the end of a request's body to the end of its answer, one task waits for the hang-up.

    What runs inside `with watch:` is cancelled when it comes, wherever it waits, and the block raises ClientGone;
    so does a block entered later. Blocks may be nested.

        with ClientWatch(receive) as watch:
            response = await pool.send(...)

    The watching task needs no end of its own: an ASGI server answers `receive` once the response is complete.
    """

    __slots__ = (
        "_cancelled_before",
        "_depth",
        "_interrupted",
        "_loop",
        "_over",
        "_receive",
        "_watcher",
        "_working",
        "gone",
    )

    def __init__(self, receive: Receive) -> None:
        """receive: the request's, with its body read."""
        self.gone = False
        self._receive = receive
        self._depth = 0
        self._over = False
        self._interrupted = False
        self._cancelled_before = 0
        self._working: asyncio.Task[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._watcher = self._loop.create_task(self._watch())

    def stand_down(self) -> None:
        """Only the last message is to be sent: with it the server reports the client as gone, whatever it did."""
        self._over = True

    def __enter__(self) -> "ClientWatch":
        if self.gone:
            raise ClientGone
        if self._working is None:
            self._working = working = asyncio.current_task(self._loop)
            assert working is not None
            self._cancelled_before = working.cancelling()
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        working = self._working
        assert working is not None
        self._depth -= 1
        if not self._depth:
            self._working = None
        if self._interrupted:
            self._interrupted = False
            if working.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
                raise ClientGone from None

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._over:
            return
        self.gone = True
        if self._working is not None:
            self._interrupted = True
            self._working.cancel()
