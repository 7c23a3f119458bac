"""What a Service is: new connections go to those that are ready, each in turn; connections that stand, stand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field


@dataclass
class Balancer:
    """ready: ports on this machine."""

    url: str = ""
    ready: list[int] = field(default_factory=list)
    connections: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        port = self.ready[self.connections % len(self.ready)]
        try:
            theirs, ours = await asyncio.open_connection("127.0.0.1", port)
            async with asyncio.TaskGroup() as group:
                group.create_task(_carry(reader, ours))
                group.create_task(_carry(theirs, writer))
        except* (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    target.close()


@contextlib.asynccontextmanager
async def balancer() -> AsyncIterator[Balancer]:
    """A balancer until left."""
    here = Balancer()
    server = await asyncio.start_server(here.accept, "127.0.0.1", 0)
    here.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield here
    finally:
        server.close()
        for task in list(here._tasks):
            task.cancel()
        await asyncio.gather(*here._tasks, return_exceptions=True)
