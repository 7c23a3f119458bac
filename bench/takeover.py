"""How long it takes from having an engine's lease to going on with its stream: the books of 200,000 blocks.

Prints a JSON line. The time until the lease can be had, which is `index.lease` after a crash, comes on top.
"""

import asyncio
import json
import time
from random import Random
from statistics import median

from redis.asyncio import Redis

from bench.redis_server import valkey
from gateway.kv.position import Position
from gateway.redis.batch import Batch
from gateway.redis.redis_index import RedisIndex
from gateway.redis.tenure import acquire
from routing.books import Entries, Traits
from routing.changes import Put
from routing.journal import Journal
from routing.ledger import Ledger
from routing.types import BlockHash, EngineHash, EngineId, ReplicaId, Tier

BLOCKS = 200_000
TIMES = 3
ENGINE = EngineId(ReplicaId("10.0.0.1:8000"), 0)


async def measure(url: str) -> float:
    random = Random(1)
    blocks = [BlockHash(random.getrandbits(64)) for _ in range(BLOCKS)]
    names = {EngineHash(random.getrandbits(64)): block for block in blocks}
    times: list[float] = []
    async with Redis.from_url(url) as client:
        index = RedisIndex(client, "bench:")
        owner = await acquire(index, "model", ENGINE, "bench", 3_600_000)
        assert owner is not None
        batch = Batch("all")
        entries = Entries(names, {}, Traits(16, (0,)))
        batch.add([Put(Tier.GPU, blocks)], entries, Position(7, b"proof", 1.0), lambda tier: frozenset())
        await owner.apply(batch)
        for _ in range(TIMES):
            started = time.perf_counter()
            successor = await acquire(index, "model", ENGINE, "bench", 3_600_000)
            assert successor is not None
            kept = await successor.load()
            assert kept is not None
            Ledger(b"", "model", journal=Journal()).restore(kept.books)
            times.append(time.perf_counter() - started)
            assert len(kept.books.names) == len(kept.books.held[Tier.GPU]) == BLOCKS
    return median(times)


def main() -> None:
    with valkey() as url:
        seconds = round(asyncio.run(measure(url)), 2)
        print(json.dumps({"bench": "takeover", "blocks": BLOCKS, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
