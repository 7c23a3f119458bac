"""The loop's side of an event stream in tests: what it should know, and waiting until it does."""

import asyncio
import time
from collections.abc import Callable

from kv_publisher import Publisher

from gateway.kv.stream import Subscription
from gateway.kv.subscriber import Subscriber
from gateway.kv.update import Update
from routing.blocks import block_hashes, root_hash
from routing.ledger import Drop, Put
from routing.types import BlockHash, EngineId, ReplicaId, Tier

ENGINE = EngineId(ReplicaId("127.0.0.1:8000"), 0)
BLOCK = 4
PATIENCE = 10.0


def stored(token: int) -> dict[str, object]:
    """As vLLM announces a block at position 0; its hash is its first token."""
    return {
        "type": "BlockStored",
        "block_hashes": [token],
        "parent_block_hash": None,
        "token_ids": [token, 1, 2, 3],
        "block_size": BLOCK,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None],
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }


def removed(token: int) -> dict[str, object]:
    return {"type": "BlockRemoved", "block_hashes": [token], "medium": "GPU", "group_idx": 0}


def name(token: int) -> BlockHash:
    return block_hashes([token, 1, 2, 3], BLOCK, root_hash(b"", "m", BLOCK))[0]


class Receiver:
    """What the event loop knows of the engine."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.held: set[BlockHash] = set()

    def deliver(self, update: Update) -> None:
        self.updates.append(update)
        for change in update.changes:
            match change:
                case Put(Tier.GPU, blocks):
                    self.held.update(blocks)
                case Drop(Tier.GPU, blocks):
                    self.held.difference_update(blocks)
                case _:
                    self.held.clear()

    def holds(self, *tokens: int) -> Callable[[], bool]:
        return lambda: self.held == {name(token) for token in tokens}


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.005)


async def follow(subscriber: Subscriber, publisher: Publisher, generation: int = 1, engine: EngineId = ENGINE) -> None:
    """Subscribe, and wait until the publisher knows."""
    subscriber.subscribe(
        Subscription(engine, generation, publisher.endpoint, publisher.replay_endpoint, publisher.topic, "m")
    )
    # More if somebody still looks for a publisher that had this port before.
    await until(lambda: publisher.subscribers() >= 1)
