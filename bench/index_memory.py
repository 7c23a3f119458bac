"""What a block costs in memory, in both indexes, and what the map of an engine's names costs beside it.

Prints a JSON line for each index. A million blocks held by 64 engines of 256, then the same by each of 4 engines with
names, as the process that owns their streams and Redis have them. In this process: allocations traced by Python, and
for the ledger's books too. In Redis: the server's own figure.
"""

import asyncio
import json
import tracemalloc
from random import Random

from redis.asyncio import Redis

from bench.redis_server import valkey
from gateway.kv.position import Position
from gateway.redis.batch import Batch
from gateway.redis.redis_index import RedisIndex
from gateway.redis.tenure import Tenure, acquire
from routing.books import Entries, Traits
from routing.changes import Put
from routing.events import BlockStored
from routing.index import PrefixIndex
from routing.journal import Journal
from routing.ledger import Ledger
from routing.types import BlockHash, EngineHash, EngineId, ReplicaId, Tier

BLOCKS = 1_000_000
ENGINES = 256
HOLDERS = 64
NAMED = 100_000
"""blocks with names, for the map's cost"""
PART = 10_000
EVENT = 16
"""blocks announced at once"""


def engine(number: int) -> EngineId:
    return EngineId(ReplicaId(f"10.0.{number // 256}.{number % 256}:8000"), 0)


def line(index: str, block: float, named: float) -> None:
    found = {
        "bench": "index_memory",
        "index": index,
        "blocks": BLOCKS,
        "engines": ENGINES,
        "bytes_per_block": round(block, 1),
        "map_bytes_per_replica_block": round(named, 1),
    }
    print(json.dumps(found), flush=True)


def parts(random: Random) -> list[tuple[EngineId, list[BlockHash]]]:
    """Who holds which blocks: each part is one engine's, as conversations are."""
    engines = [engine(number) for number in range(ENGINES)]
    return [
        (engines[number % HOLDERS * (ENGINES // HOLDERS)], [BlockHash(random.getrandbits(64)) for _ in range(PART)])
        for number in range(BLOCKS // PART)
    ]


def in_memory() -> None:
    held = parts(Random(1))
    tracemalloc.start()
    index = PrefixIndex()
    for owner, blocks in held:
        for start in range(0, PART, EVENT):
            index.apply(owner, [Put(Tier.GPU, blocks[start : start + EVENT])])
    per_block = tracemalloc.get_traced_memory()[0] / BLOCKS
    before = tracemalloc.get_traced_memory()[0]
    ledger = Ledger(b"", "model", journal=Journal())
    random, parent = Random(2), None
    for _ in range(NAMED // 100):
        hashes = [EngineHash(random.getrandbits(64)) for _ in range(100)]
        tokens = [random.randrange(150_000) for _ in range(1600)]
        ledger.apply(BlockStored(hashes, parent, tokens, 16, Tier.GPU, None, None))
        ledger.entries()
        parent = hashes[-1]
    line("memory", per_block, (tracemalloc.get_traced_memory()[0] - before) / NAMED)
    tracemalloc.stop()


async def in_redis(url: str) -> None:
    async with Redis.from_url(url) as client:
        index = RedisIndex(client, "kvgate:")
        tenures: dict[EngineId, Tenure] = {}
        for number in range(ENGINES):
            found = await acquire(index, "model", engine(number), "bench", 3_600_000)
            assert found is not None
            tenures[engine(number)] = found
            await found.apply(Batch("all"))

        async def used() -> int:
            return int((await client.info("memory"))["used_memory"])

        start = await used()
        for owner, blocks in parts(Random(1)):
            batch = Batch()
            batch.add([Put(Tier.GPU, blocks)], None, None, lambda tier: frozenset())
            await tenures[owner].apply(batch)
        filled = await used()
        random = Random(2)
        for _ in range(NAMED // PART):
            names = {EngineHash(random.getrandbits(64)): BlockHash(random.getrandbits(64)) for _ in range(PART)}
            batch = Batch()
            batch.add([], Entries(names, {}, Traits(16, (0,))), Position(1, b"", 0.0), lambda tier: frozenset())
            await tenures[engine(1)].apply(batch)
        line("redis", (filled - start) / BLOCKS, (await used() - filled) / NAMED)


def main() -> None:
    in_memory()
    with valkey() as url:
        asyncio.run(in_redis(url))


if __name__ == "__main__":
    main()
