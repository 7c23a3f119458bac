"""What it takes to ask the index in Redis who holds how long a prefix.

Prints a JSON line for each length of chain, number of clients, kind of holders and of asking. Holders: `few`, four
engines hold it, and `all`, every engine holds it to a depth of its own. Asked: `again`, of a gateway that remembers
where along these chains it found the holders to change, as it does of prompts that go on or begin like others, and
`first`, of one that does not. Clients are requests of one gateway: coroutines of one process, on its event loop and its
connections, each of which asks again when it has its answer. `client_us` and `server_us` are the CPU time of a match on
either side: how often one gateway can ask, and how often all of them together.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import product
from random import Random
from statistics import median

import uvloop

from bench.redis_server import valkey
from gateway.config import IndexConfig
from gateway.interpreter import settle
from gateway.redis.batch import Batch
from gateway.redis.connect import connect
from gateway.redis.health import Health
from gateway.redis.lookup import Lookup
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import Client
from gateway.redis.tenure import acquire
from routing.changes import Put
from routing.index import PrefixIndex
from routing.types import BlockHash, EngineId, Namespace, ReplicaId, Tier

REPLICAS = 64
LENGTHS = (500, 2_000, 8_000)
CLIENTS = (1, 16)
SECONDS = 2.0
CHAINS = 8
"""that clients ask for in turn"""
SPACE = Namespace("bench", 16)


async def fill(index: RedisIndex, random: Random, length: int, holders: int) -> Sequence[Sequence[BlockHash]]:
    """Put chains into the index, each held by so many engines to random depths."""
    chains = [[BlockHash(random.getrandbits(64)) for _ in range(length)] for _ in range(CHAINS)]
    for number in range(REPLICAS):
        engine = EngineId(ReplicaId(f"10.0.0.{number}:8000"), 0)
        tenure = await acquire(index, SPACE.model, engine, "bench", 600_000)
        assert tenure is not None
        batch = Batch("all")
        for chain in chains:
            if number in random.sample(range(REPLICAS), holders):
                batch.add([Put(Tier.GPU, chain[: random.randint(1, length)])], None, None, lambda tier: frozenset())
        await tenure.apply(batch)
    return chains


async def spent(client: Client) -> float:
    """For how many seconds of CPU the server has run."""
    used = await client.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


async def measure(url: str, length: int, holders: str) -> None:
    async with connect(IndexConfig(redis_url=url)) as client, asyncio.TaskGroup() as group:
        await client.flushall()
        indexes = {"first": RedisIndex(client, "bench:", remembered=0), "again": RedisIndex(client, "bench:")}
        chains = await fill(indexes["first"], Random(length), length, 4 if holders == "few" else REPLICAS)
        nothing = PrefixIndex()
        settle()
        for clients, (asked, index) in product(CLIENTS, indexes.items()):
            lookup = Lookup(index, Health(time.monotonic), 10.0, group.create_task, nothing.match)
            times: list[float] = []
            end = time.perf_counter() + SECONDS

            async def ask(number: int, lookup: Lookup = lookup, times: list[float] = times, end: float = end) -> None:
                turn = number
                while (started := time.perf_counter()) < end:
                    turn += 1
                    await lookup.match([(SPACE, chains[turn % CHAINS])])
                    times.append(time.perf_counter() - started)

            before = await spent(client)
            begun, worked = time.perf_counter(), time.process_time()
            await asyncio.gather(*(ask(number) for number in range(clients)))
            took = time.perf_counter() - begun
            client_seconds, server_seconds = time.process_time() - worked, await spent(client) - before
            line = {
                "bench": "redis_match",
                "blocks": length,
                "replicas": REPLICAS,
                "clients": clients,
                "holders": holders,
                "asked": asked,
                "p50_ms": round(median(times) * 1000, 3),
                "matches_per_s": round(len(times) / took),
                "client_us": round(client_seconds / len(times) * 1e6),
                "server_us": round(server_seconds / len(times) * 1e6),
            }
            print(json.dumps(line), flush=True)


def main() -> None:
    with valkey() as url:
        for length in LENGTHS:
            for holders in ("few", "all"):
                uvloop.run(measure(url, length, holders))


if __name__ == "__main__":
    main()
