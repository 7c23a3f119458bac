"""Back-pressure of a connection that is written to."""

import asyncio


class Flow(asyncio.Protocol):
    """Knows whether the other side is slower than what is written to it. full: it is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.full = False
        self._loop = loop
        self._writable: asyncio.Future[None] | None = None

    def pause_writing(self) -> None:
        """asyncio's."""
        self.full = True

    def resume_writing(self) -> None:
        """asyncio's; to be called when the connection is lost, too."""
        self.full = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    async def drain(self) -> None:
        """Wait until the other side has taken what was written, or has gone."""
        self._writable = self._loop.create_future()
        await self._writable


def dropped(data: bytes) -> None:
    """Where to write to who has gone: uvloop takes a late write amiss."""
