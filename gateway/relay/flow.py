"""Back-pressure of a connection that is written to."""

import asyncio


class Flow(asyncio.Protocol):
    """Knows whether the other side is slower than what is written to it. full: it is.

    longest: seconds in which it must have taken most of what waits for it, else `stalled` is called; None for any time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, longest: float | None = None) -> None:
        self.full = False
        self._longest = longest
        self._late: asyncio.TimerHandle | None = None
        self._loop = loop
        self._writable: asyncio.Future[None] | None = None

    def pause_writing(self) -> None:
        """asyncio's."""
        self.full = True
        if self._longest is not None:
            self._late = self._loop.call_later(self._longest, self.stalled)

    def resume_writing(self) -> None:
        """asyncio's; to be called when the connection is lost, too."""
        self.full = False
        if self._late is not None:
            self._late.cancel()
            self._late = None
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def stalled(self) -> None:
        """The other side has not taken enough in `longest` seconds."""

    async def drain(self) -> None:
        """Wait until the other side has taken what was written, or has gone."""
        self._writable = self._loop.create_future()
        await self._writable


def dropped(data: bytes) -> None:
    """Where to write to who has gone: uvloop takes a late write amiss."""
