"""Replicas that answer, or misbehave, as a test says, on real sockets."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.relay.limits import Limits
from gateway.relay.origin import Origin
from gateway.relay.pool import Pool

DEADLINE = 5.0


@dataclass(slots=True)
class Peer:
    """The replica's end of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> bytes:
        """Head and body of the next request. Raises IncompleteReadError if the gateway hung up."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return head + await self.reader.readexactly(length)

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def say_slowly(self, data: bytes, step: int) -> None:
        """`step` bytes in each turn of the loop."""
        for at in range(0, len(data), step):
            await self.say(data[at : at + step])
            await asyncio.sleep(0)

    async def hung_up(self) -> bool:
        """Wait until the gateway closes. False if it sends something instead."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


Behaviour = Callable[[Peer], Awaitable[None]]


def answering(answer: bytes, *, step: int = 0) -> Behaviour:
    """Gives the same answer to each request, `step` bytes at once or all, and keeps the connection."""

    async def behave(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say_slowly(answer, step or len(answer))

    return behave


def answering_once(answer: bytes, *, step: int = 0) -> Behaviour:
    """Gives an answer to the first request, `step` bytes at once or all, and closes."""

    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say_slowly(answer, step or len(answer) or 1)

    return behave


@dataclass(slots=True)
class FakeReplica:
    """Plays a behaviour on each connection and remembers how many there were."""

    behaviour: Behaviour
    port: int = 0
    connections: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def playing(self) -> int:
        """Connections it has not seen the end of."""
        return len(self.tasks)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            await self.behaviour(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            writer.close()

    def origin(self) -> Origin:
        return Origin("http", "127.0.0.1", self.port)


@dataclass(slots=True)
class Harness:
    """Starts replicas and pools, and stops what it started."""

    servers: list[asyncio.Server] = field(default_factory=list)
    replicas: list[FakeReplica] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)

    async def replica(self, behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> FakeReplica:
        replica = FakeReplica(behaviour)
        server = await asyncio.start_server(replica.accept, "127.0.0.1", 0, ssl=tls)
        replica.port = server.sockets[0].getsockname()[1]
        self.servers.append(server)
        self.replicas.append(replica)
        return replica

    async def pool(self, behaviour: Behaviour, limits: Limits | None = None) -> Pool:
        return self.pool_of(await self.replica(behaviour), limits)

    def pool_of(self, replica: FakeReplica, limits: Limits | None = None) -> Pool:
        pool = Pool(replica.origin(), limits)
        self.pools.append(pool)
        return pool

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        loop = asyncio.get_running_loop()
        end = loop.time() + DEADLINE
        while not condition():
            assert loop.time() < end, "the condition never held"
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        for pool in self.pools:
            pool.close()
        for server in self.servers:
            server.close()
        tasks = [task for replica in self.replicas for task in replica.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.until(lambda: all(pool.open == 0 for pool in self.pools))
