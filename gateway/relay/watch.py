"""Notices that a client has hung up while its request waits for something else."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from types import TracebackType
from typing import Any

from gateway.errors import ClientGone

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


HANG_UP = "kvgate.on_hang_up"
"""ASGI extension: takes a function to call at once when the client hangs up, which saves a task that waits for it."""


class ClientWatch:
    """Waits for the hang-up from the end of a request's body to the end of its answer.

    What runs inside `with watch:` is cancelled when it comes, wherever it waits, and the block raises ClientGone;
    so does a block entered later. Blocks may be nested.

        with ClientWatch(receive, scope) as watch:
            response = await pool.send(...)

    It needs no end of its own: an ASGI server answers `receive` once the response is complete.
    """

    __slots__ = (
        "_cancelled_before",
        "_depth",
        "_interrupted",
        "_loop",
        "_over",
        "_watcher",
        "_working",
        "gone",
    )

    def __init__(self, receive: Receive, scope: Mapping[str, Any] | None = None) -> None:
        """receive, scope: the request's, with its body read. Without the scope a task does the waiting."""
        self.gone = False
        self._loop = asyncio.get_running_loop()
        self._depth = 0
        self._over = False
        self._interrupted = False
        self._cancelled_before = 0
        self._working: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Task[None] | None = None
        on_hang_up = scope.get("extensions", {}).get(HANG_UP) if scope is not None else None
        if on_hang_up is not None:
            on_hang_up(self._hung_up)
        else:
            self._watcher = self._loop.create_task(self._watch(receive))

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

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._hung_up()

    def _hung_up(self) -> None:
        if self._over:
            return
        self.gone = True
        if self._working is not None:
            self._interrupted = True
            self._working.cancel()
