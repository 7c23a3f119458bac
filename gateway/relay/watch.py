"""Notices that a client has hung up while its request waits for something else."""

import asyncio
from types import TracebackType
from typing import Any

from gateway.errors import ClientGone
from gateway.relay.client import Client


class ClientWatch:
    """Ends work whose client hangs up.

    What runs inside `with watch:` is cancelled when that happens, wherever it waits, and the block raises ClientGone;
    so does a block entered later. They may follow one another. A block that ends well nevertheless, because the work
    has caught the cancellation, is left as if nothing had been. All blocks are one task's.

        with ClientWatch(client) as watch:
            response = await pool.send(...)
    """

    __slots__ = ("_cancelled_before", "_client", "_interrupted", "_task", "_working")

    def __init__(self, client: Client) -> None:
        """To be made when the request's body has been read."""
        self._client = client
        self._interrupted = False
        self._cancelled_before = 0
        self._task: asyncio.Task[Any] | None = None
        self._working: asyncio.Task[Any] | None = None
        client.on_hang_up(self._hung_up)

    @property
    def gone(self) -> bool:
        return self._client.gone

    def __enter__(self) -> "ClientWatch":
        if self._client.gone:
            raise ClientGone
        if self._task is None:
            self._task = asyncio.current_task()
        self._working = working = self._task
        assert working is not None
        self._cancelled_before = working.cancelling()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        working, self._working = self._working, None
        if not self._interrupted or working is None:
            return
        self._interrupted = False
        if working.uncancel() > self._cancelled_before:
            if kind is None:
                raise asyncio.CancelledError  # somebody else's, which the work has taken for the hang-up
        elif kind is asyncio.CancelledError:
            raise ClientGone from None

    def _hung_up(self) -> None:
        if self._working is not None:
            self._interrupted = True
            self._working.cancel()
