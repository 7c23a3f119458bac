"""What one second of the page costs the event loop: a fleet of 256 engines, 500 decisions a second among all of them.

Prints one JSON line: milliseconds of CPU for a document, the longest that the loop is held by it, its bytes, and the
memory that decisions take.
"""

import json
import time
import tracemalloc
from collections.abc import Coroutine, Iterator, MutableMapping, Sequence
from random import Random
from statistics import median
from time import process_time, thread_time
from typing import Any

from prometheus_client import CollectorRegistry

from gateway.config import Config
from gateway.decisions import DecisionRing
from gateway.kv.actions import FeedCounters
from gateway.kv.update import Update
from gateway.log_line import LogLines
from gateway.page.snapshot import Snapshots
from gateway.page.storage import shown
from gateway.page.traffic import SLICE, SLICES, Traffic
from gateway.relay.asgi import AsgiClient
from gateway.relay.inbound import Inbound
from gateway.relay.record import Ended, Record
from gateway.relay.usage import Usage
from routing.breaker import BreakerRules
from routing.cost import Prediction
from routing.decision import Candidate, Decision
from routing.fleet import Fleet, ModelCard, Replica
from routing.health import Health
from routing.index import PrefixIndex
from routing.ledger import Put
from routing.types import BlockHash, ReplicaId, Tier

ENGINES = 256
DECISIONS = 500
"""a second"""
PROMPT = 4096


class World:
    """The fleet and the page's sources. clock: seconds since the epoch, moved by hand."""

    def __init__(self, random: Random, engines: int = ENGINES) -> None:
        self.random, self.clock = random, time.time()
        config, fleet, index = Config(), Fleet(), PrefixIndex()
        streams = []
        for number in range(engines):
            id = ReplicaId(f"10.0.{number // 250}.{number % 250}:8000")
            (engine,) = fleet.join(Replica(id, f"http://{id}", (ModelCard("m", ""),), capacity_blocks=20_000))
            index.apply(engine.id, [Put(Tier.GPU, [BlockHash(random.getrandbits(64)) for _ in range(100)])])
            feed = FeedCounters(confirmed_at=self.clock, last_seq=number)
            streams.append(Update(engine.id, 1, (), 16, frozenset(), feed))
        self.engines = list(fleet)
        self.decisions = DecisionRing(config.page.decisions)
        self.lines = LogLines([self.decisions.add])
        self.traffic = Traffic(config.speed(), self.now)
        more = {"storage": shown(None, (), config.speed(), CollectorRegistry()), "losses": None, "shadow": None}
        health = Health(fleet, BreakerRules(5, 2, 5.0, 60.0), slow_start=0.0)
        self.snapshots = Snapshots(
            lambda: config,
            list,
            fleet,
            health,
            index,
            lambda: streams,
            lambda: more,
            self.traffic,
            self.decisions,
            self.now,
        )

    def now(self) -> float:
        return self.clock

    def requests(self, count: int) -> None:
        """So many end now."""
        for ended in self.ended(count):
            self.lines.ended(ended)
            self.traffic.add(ended)

    def ended(self, count: int) -> Iterator[Ended]:
        """So many requests that are over."""
        for _ in range(count):
            yield self._ended(f"{self.random.getrandbits(64):016x}")

    def _ended(self, id: str) -> Ended:
        random = self.random
        candidates = [
            Candidate(engine.id, engine.load, 64, 64, PROMPT, Prediction(0.0, 0.0, 0.0, random.random(), 0.0))
            for engine in self.engines
        ]
        place = random.randrange(len(candidates))
        chosen = candidates[place] = candidates[place]._replace(prediction=Prediction(0.0, 0.0, 0.0, 0.0, 0.0))
        decision = Decision(
            chosen.engine, "kv-aware", "first token soonest", PROMPT, 64, 64, chosen.prediction, candidates
        )
        path = "/v1/chat/completions"
        scope = {"method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": []}
        usage = Usage(PROMPT, 10, 64)
        inbound = Inbound(AsgiClient(scope, _never, _nowhere), id, "m", b"", hide_usage=False, arrived=self.clock)
        record = Record(
            id, self.clock, path, "m", "", True, decision, 200, "complete", usage, True, random.random(), 1.0, 0.0,
            None, len(candidates),
        )  # fmt: skip
        return Ended(inbound, record)


async def _never() -> MutableMapping[str, Any]:
    raise AssertionError


async def _nowhere(message: MutableMapping[str, Any]) -> None:
    pass


def turns(document: Coroutine[Any, Any, bytes]) -> tuple[bytes, Sequence[float]]:
    """The document, and the seconds of each turn of the loop that it took."""
    taken = []
    while True:
        begun = thread_time()
        try:
            document.send(None)
        except StopIteration as done:
            taken.append(thread_time() - begun)
            return done.value, taken
        taken.append(thread_time() - begun)


def main() -> None:
    """Run it and print its line."""
    world = World(Random(1))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    world.requests(1000)
    full, _ = tracemalloc.get_traced_memory()
    world.requests(2000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for _ in range(SLICES):
        world.clock += SLICE
        world.requests(20)
    figures = []
    for _ in range(20):
        world.clock += 1
        world.requests(DECISIONS)
        begun = process_time()
        document, taken = turns(world.snapshots.current())
        figures.append((process_time() - begun, max(taken), len(document)))
    cpu, longest, size = (median(column) for column in zip(*figures, strict=True))
    print(
        json.dumps(
            {
                "bench": "page",
                "engines": ENGINES,
                "decisions_per_s": DECISIONS,
                "cpu_ms": round(cpu * 1e3, 2),
                "longest_turn_ms": round(longest * 1e3, 2),
                "bytes": round(size),
                "ring_mb": round((full - before) / 1e6, 1),
                "ring_growth_mb": round((after - full) / 1e6, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
