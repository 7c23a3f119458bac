"""What KV events cost: payload -> feed -> ledger -> index, for 64 engines that are full and therefore evict.

Prints a JSON line for each number of blocks per event. A block stored and a block removed are one operation each. The
rate is per second of CPU time on one core, the median over slices, so that other work on the machine shows less.
"""

import json
import time
from collections import deque
from collections.abc import Sequence
from random import Random
from statistics import median

import msgspec

from gateway.kv.actions import Apply, Clear
from gateway.kv.feed import Feed
from routing.index import PrefixIndex
from routing.ledger import Ledger
from routing.types import EngineId, ReplicaId

BLOCKS_PER_EVENT = (1, 4, 16, 64)
ENGINES = 64
BLOCK_SIZE = 16
VOCABULARY = 150_000
CHAIN = 128
"""blocks of a conversation; then another begins"""
HELD = 2_000
"""blocks an engine holds before it evicts"""
BLOCKS = 245_760
"""stored in one measurement, over all engines"""
SLICES = 10


class Engine:
    """Writes an engine's messages, in vLLM's layout: a store of `width` blocks, and a removal for each block over."""

    def __init__(self, random: Random, width: int) -> None:
        self._random = random
        self._width = width
        self._chain: list[int] = []
        self._held: deque[int] = deque()

    def message(self) -> tuple[bytes, int]:
        """The next payload, and how many operations it holds."""
        if len(self._chain) + self._width > CHAIN:
            self._chain = []
        events: list[dict[str, object]] = []
        while len(self._held) + self._width > HELD:
            gone = self._held.popleft()
            events.append({"type": "BlockRemoved", "block_hashes": [gone], "medium": "GPU", "group_idx": 0})
        hashes = [self._random.getrandbits(64) for _ in range(self._width)]
        operations = len(events) + self._width
        events.append(
            {
                "type": "BlockStored",
                "block_hashes": hashes,
                "parent_block_hash": self._chain[-1] if self._chain else None,
                "token_ids": self._random.choices(range(VOCABULARY), k=self._width * BLOCK_SIZE),
                "block_size": BLOCK_SIZE,
                "lora_id": None,
                "medium": "GPU",
                "lora_name": None,
                "extra_keys": [None] * self._width,
                "group_idx": 0,
                "kv_cache_spec_kind": "full_attention",
            }
        )
        self._chain += hashes
        self._held += hashes
        return msgspec.msgpack.encode([time.time(), events, 0]), operations


class Books:
    """One engine as the gateway sees it."""

    def __init__(self, number: int, index: PrefixIndex) -> None:
        self._engine = EngineId(ReplicaId(f"10.0.0.{number}:8000"), 0)
        self._index = index
        self._feed = Feed(replayable=False)
        self._ledger = Ledger(b"", "model")

    def live(self, seq: int, payload: bytes) -> None:
        """Book one message."""
        for action in self._feed.live(seq, payload, 0.0):
            match action:
                case Apply(batch):
                    changes = [change for event in batch.events for change in self._ledger.apply(event)]
                    self._index.apply(self._engine, changes)
                case Clear():
                    self._index.apply(self._engine, self._ledger.clear())


def measure(width: int) -> Sequence[float]:
    """Operations per second of CPU time at `width` blocks an event, once for each slice of the measurement."""
    random = Random(width)
    index = PrefixIndex()
    engines = [Engine(random, width) for _ in range(ENGINES)]
    books = [Books(number, index) for number in range(ENGINES)]
    filling = HELD // width
    in_slice = BLOCKS // SLICES // ENGINES // width
    rates: list[float] = []
    spent, operations = 0.0, 0
    for seq in range(filling + SLICES * in_slice):
        messages = [engine.message() for engine in engines]
        started = time.process_time()
        for book, (payload, _) in zip(books, messages, strict=True):
            book.live(seq, payload)
        if seq < filling:
            continue
        spent += time.process_time() - started
        operations += sum(count for _, count in messages)
        if (seq - filling) % in_slice == in_slice - 1:
            rates.append(operations / spent)
            spent, operations = 0.0, 0
    return rates


def main() -> None:
    for width in BLOCKS_PER_EVENT:
        rate = round(median(measure(width)))
        print(json.dumps({"bench": "ingest", "blocks_per_event": width, "block_ops_per_s": rate}), flush=True)


if __name__ == "__main__":
    main()
