"""Random histories of a fleet whose index is in Redis and whose gateways die: never more than an engine holds.

KVGATE_STEPS sets how long a history is; `make soak` plays a long one.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from random import Random

from fleet_history import History
from redis.asyncio import Redis
from simulated_fleet import MODEL, Replica
from valkey_server import Valkey

from gateway.kv.update import Update
from gateway.redis.names import engine_name
from gateway.redis.redis_index import RedisIndex
from gateway.redis.tenure import acquire
from gateway.redis.writer import Writer
from routing.changes import Change, Put, Wipe
from routing.index import PrefixIndex
from routing.types import BlockHash, EngineId, PrefixMatch

REPLICAS = 24
STEPS = int(os.environ.get("KVGATE_STEPS", "300"))
LEASE_MS = 3_600_000
"""a gateway's death is said, not waited for"""


class Told:
    """What the owner of a stream knows of its engine, and has still to write."""

    def __init__(self) -> None:
        self.local = PrefixIndex()
        self.changes: list[Change] = []

    def apply(self, engine: EngineId, changes: Sequence[Change]) -> None:
        self.local.apply(engine, changes)
        self.changes += changes

    def forget(self, engine: EngineId) -> None:
        self.local.forget(engine)


class InRedis:
    """Gateways that own a replica each, and die one by one."""

    faults: Mapping[str, int] = {"crash": 8, "sweep": 2}

    def __init__(self, client: Redis, group: asyncio.TaskGroup) -> None:
        self.told_by: dict[EngineId, Told] = {}
        self._client = client
        self._index = RedisIndex(client, "test:")
        self._group = group
        self._writers: dict[EngineId, tuple[Writer, asyncio.Task[None]]] = {}
        self._turns = asyncio.Semaphore(8)
        self._gateways = 0

    async def join(self, replica: Replica) -> None:
        """By a gateway of its own, which goes on from what is kept."""
        id, told = replica.id, self.told_by[replica.id]
        self._gateways += 1
        tenure = await acquire(self._index, MODEL, id, f"gateway {self._gateways}", LEASE_MS)
        assert tenure is not None
        told.local.forget(id)
        told.changes.clear()
        writer = Writer(tenure, lambda tier: told.local.blocks(id, tier), self._turns)
        self._writers[id] = writer, self._group.create_task(writer.run())
        kept = await tenure.load() if replica.replayable else None
        if kept:
            told.local.apply(id, [Put(tier, list(blocks)) for tier, blocks in kept.books.held.items()])
        else:
            told.apply(id, [Wipe(None)])
        replica.join(kept)

    async def leave(self, replica: Replica) -> None:
        replica.leave()
        writer, task = self._writers.pop(replica.id)
        task.cancel()
        await writer.tenure.release(forget=True)

    async def told(self, replica: Replica) -> None:
        if replica.id not in self._writers:
            return
        told, (writer, _) = self.told_by[replica.id], self._writers[replica.id]
        changes, told.changes = told.changes, []
        feed = replica.feed
        writer.add(
            Update(
                replica.id, 1, changes, replica.ledger.block_size, frozenset(), feed.counters,
                entries=replica.ledger.entries(), position=feed.position, settled=feed.settled,
            )
        )  # fmt: skip
        await writer.written()

    async def fail(self, fault: str, replica: Replica) -> None:
        if fault == "sweep":
            await self._sweep()
        elif replica.joined:
            replica.lose_gateway()
            _, task = self._writers.pop(replica.id)
            task.cancel()
            await self._client.delete(f"{self._index.base(MODEL)}o:{engine_name(replica.id)}")
            # In some other gateway's next round:
            await self._index.renew(MODEL, LEASE_MS, {})

    def followed(self, replica: Replica) -> bool:
        return replica.joined

    async def match(self, blocks: Sequence[BlockHash]) -> Mapping[EngineId, PrefixMatch]:
        return await self._index.match(MODEL, blocks)

    async def close(self) -> None:
        for _, task in self._writers.values():
            task.cancel()

    async def _sweep(self) -> None:
        retired = await self._index.retired(MODEL)
        cursor = "0"
        while retired:
            cursor = await self._index.sweep(MODEL, retired, cursor)
            if cursor == "0":
                return


async def test_the_shared_index_says_what_the_engines_hold_and_never_more_whoever_dies(server: Valkey) -> None:
    random = Random(3)
    async with Redis.from_url(server.url) as client, asyncio.TaskGroup() as group:
        gateways = InRedis(client, group)
        fleet = []
        for number in range(REPLICAS):
            told = Told()
            fleet.append(Replica(number, told, random, recorded=True))
            gateways.told_by[fleet[-1].id] = told
        history = History(random, fleet, gateways)
        await history.play(STEPS)
        await gateways.close()
    assert min(history.compared.values()) > STEPS // 10, history.compared
