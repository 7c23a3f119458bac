"""What it takes to bring events into the index in Redis: payload -> feed -> ledger -> batch -> script.

Prints a JSON line for each number of blocks per event. The engines are full and evict: a block stored and a block
removed are one operation each. One process, 64 engines, as many writes under way as a gateway has.
"""

import asyncio
import json
import time
from itertools import count
from random import Random

import uvloop
from redis.asyncio import Redis

from bench.ingest import ENGINES, HELD, Engine
from bench.redis_server import valkey
from gateway.kv.actions import Apply, Clear
from gateway.kv.feed import Feed
from gateway.kv.update import Update
from gateway.redis.redis_index import RedisIndex
from gateway.redis.tenure import acquire
from gateway.redis.writer import Writer
from routing.changes import Change
from routing.index import PrefixIndex
from routing.journal import Journal
from routing.ledger import Ledger
from routing.types import EngineId, ReplicaId

WIDTHS = (4, 16, 64)
OPERATIONS = 400_000
TOGETHER = 8
"""messages that a turn of the event loop hands over of each engine"""


class Books:
    """One engine as its owner sees it."""

    def __init__(self, number: int, index: PrefixIndex) -> None:
        self.engine = EngineId(ReplicaId(f"10.0.0.{number}:8000"), 0)
        self._index = index
        self._feed = Feed(replayable=False)
        self._ledger = Ledger(b"", "model", journal=Journal())
        self._numbers = count()

    async def own(self, redis: RedisIndex, turns: asyncio.Semaphore) -> None:
        tenure = await acquire(redis, "model", self.engine, "bench", 600_000)
        assert tenure is not None
        self.writer = Writer(tenure, lambda tier: self._index.blocks(self.engine, tier), turns)

    def take_in(self, payloads: list[bytes]) -> None:
        changes: list[Change] = []
        for payload in payloads:
            for action in self._feed.live(next(self._numbers), payload, 0.0):
                match action:
                    case Apply(batch):
                        changes += [change for event in batch.events for change in self._ledger.apply(event)]
                    case Clear():
                        changes += self._ledger.clear()
        self._index.apply(self.engine, changes)
        self.writer.add(
            Update(
                self.engine, 1, changes, self._ledger.block_size, frozenset(), self._feed.counters,
                entries=self._ledger.entries(), position=self._feed.position,
            )
        )  # fmt: skip


async def measure(url: str, width: int) -> float:
    """Operations per second."""
    random = Random(width)
    async with Redis.from_url(url) as client, asyncio.TaskGroup() as group:
        await client.flushall()
        index, turns = PrefixIndex(), asyncio.Semaphore(8)
        engines = [Engine(random, width) for _ in range(ENGINES)]
        books = [Books(number, index) for number in range(ENGINES)]
        for each in books:
            await each.own(RedisIndex(client, "bench:"), turns)
        tasks = [group.create_task(each.writer.run()) for each in books]
        for _ in range(HELD // width // TOGETHER + 1):
            for engine, each in zip(engines, books, strict=True):
                each.take_in([engine.message()[0] for _ in range(TOGETHER)])
            await asyncio.gather(*(each.writer.written() for each in books))
        done, spent = 0, 0.0
        while done < OPERATIONS:
            messages = [[engine.message() for _ in range(TOGETHER)] for engine in engines]
            started = time.perf_counter()
            for each, some in zip(books, messages, strict=True):
                each.take_in([payload for payload, _ in some])
                await asyncio.sleep(0)
            await asyncio.gather(*(each.writer.written() for each in books))
            spent += time.perf_counter() - started
            done += sum(operations for some in messages for _, operations in some)
        for task in tasks:
            task.cancel()
        return done / spent


def main() -> None:
    with valkey() as url:
        for width in WIDTHS:
            rate = round(uvloop.run(measure(url, width)))
            print(json.dumps({"bench": "redis_apply", "blocks_per_event": width, "block_ops_per_s": rate}), flush=True)


if __name__ == "__main__":
    main()
