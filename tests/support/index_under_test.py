"""One face for both indexes, so that one suite holds for both."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Protocol

from redis.asyncio import Redis, RedisCluster
from told_engine import MODEL, SECRET
from valkey_server import valkey, valkey_cluster

from gateway.kv.position import Position
from gateway.redis.batch import Batch
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import Client
from gateway.redis.tenure import Tenure, acquire
from routing.changes import Change
from routing.index import PrefixIndex
from routing.journal import Journal
from routing.ledger import Ledger
from routing.types import BlockHash, EngineId, PrefixMatch, Tier

KINDS = ("memory", "redis", "cluster")
LEASE_MS = 600_000


class IndexUnderTest(Protocol):
    """What a ledger's changes go into."""

    async def apply(self, engine: EngineId, ledger: Ledger, changes: Sequence[Change]) -> None:
        """Take in what the ledger derived."""

    async def match(self, blocks: Sequence[BlockHash]) -> Mapping[EngineId, PrefixMatch]:
        """As `PrefixIndex.match`."""
        ...

    async def forget(self, engine: EngineId) -> None:
        """The engine left."""

    async def crash(self, engine: EngineId) -> None:
        """Who follows the engine's stream dies."""

    async def take_over(self, engine: EngineId, ledger: Ledger) -> Ledger:
        """Another goes on. ledger: of the one who died. Returns the new one's, to be told what was missed."""
        ...

    async def sweep(self) -> None:
        """Clear what was left behind."""

    async def held(self, engine: EngineId) -> tuple[int, int]:
        """Blocks in the GPU and in host memory."""
        ...


class Memory:
    def __init__(self) -> None:
        self._index = PrefixIndex()

    async def apply(self, engine: EngineId, ledger: Ledger, changes: Sequence[Change]) -> None:
        self._index.apply(engine, changes)

    async def match(self, blocks: Sequence[BlockHash]) -> Mapping[EngineId, PrefixMatch]:
        return self._index.match(blocks)

    async def forget(self, engine: EngineId) -> None:
        self._index.forget(engine)

    async def crash(self, engine: EngineId) -> None:
        self._index.forget(engine)

    async def take_over(self, engine: EngineId, ledger: Ledger) -> Ledger:
        # What is in memory dies with its process and is told anew.
        self._index.apply(engine, ledger.whole())
        return ledger

    async def sweep(self) -> None:
        return

    async def held(self, engine: EngineId) -> tuple[int, int]:
        return self._index.held(engine, Tier.GPU), self._index.held(engine, Tier.CPU)


class Shared:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._index = RedisIndex(client, "test:")
        self._tenures: dict[EngineId, Tenure] = {}
        self._mirror = PrefixIndex()
        self._seq = 0

    async def apply(self, engine: EngineId, ledger: Ledger, changes: Sequence[Change]) -> None:
        self._mirror.apply(engine, changes)
        if engine not in self._tenures:
            tenure = await acquire(self._index, MODEL, engine, "a", LEASE_MS)
            assert tenure is not None
            self._tenures[engine] = tenure
        self._seq += 1
        batch = Batch()
        position = Position(self._seq, b"proof", 1.0)
        batch.add(changes, ledger.entries(), position, lambda tier: self._mirror.blocks(engine, tier))
        await self._tenures[engine].apply(batch, most=8)

    async def match(self, blocks: Sequence[BlockHash]) -> Mapping[EngineId, PrefixMatch]:
        return await self._index.match(MODEL, blocks)

    async def forget(self, engine: EngineId) -> None:
        self._mirror.forget(engine)
        tenure = self._tenures.pop(engine, None)
        if tenure:
            await tenure.release(forget=True)

    async def crash(self, engine: EngineId) -> None:
        await self._client.delete(f"{self._index.base(MODEL)}o:{engine.replica}/{engine.rank}")
        # Some gateway's next round sees it.
        await self._index.renew(MODEL, LEASE_MS, {})

    async def take_over(self, engine: EngineId, ledger: Ledger) -> Ledger:
        if self._tenures.pop(engine, None) is None:
            return ledger
        successor = await acquire(self._index, MODEL, engine, "b", LEASE_MS)
        assert successor is not None
        self._tenures[engine] = successor
        kept = await successor.load()
        assert kept is not None
        assert kept.position.seq <= self._seq
        fresh = Ledger(SECRET, MODEL, journal=Journal())
        assert fresh.restore(kept.books) == []
        return fresh

    async def sweep(self) -> None:
        retired = await self._index.retired(MODEL)
        cursor = "0"
        while retired:
            cursor = await self._index.sweep(MODEL, retired, cursor, page=100)
            if cursor == "0":
                return

    async def held(self, engine: EngineId) -> tuple[int, int]:
        engines = (await self._index.renew(MODEL, LEASE_MS, {})).engines
        standing = engines.get(engine)
        return (standing.gpu, standing.cpu) if standing else (0, 0)


@contextlib.contextmanager
def servers(kind: str) -> Iterator[str | None]:
    """What an index of this kind needs, until left: the URL of a server, or None."""
    if kind == "memory":
        yield None
    elif kind == "redis":
        with valkey() as server:
            yield server.url
    else:
        with valkey_cluster() as nodes:
            yield nodes[0].url


@contextlib.asynccontextmanager
async def index_under_test(kind: str, url: str | None) -> AsyncIterator[IndexUnderTest]:
    """An empty index of one of `KINDS` until left."""
    if url is None:
        yield Memory()
    elif kind == "cluster":
        async with RedisCluster.from_url(url) as cluster:
            await cluster.flushall()
            yield Shared(cluster)
    else:
        async with Redis.from_url(url) as client:
            await client.flushall()
            yield Shared(client)
