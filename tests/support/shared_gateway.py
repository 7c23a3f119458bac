"""A gateway's half of the shared index, without its HTTP side: streams, leases, lookups."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from kv_publisher import Publisher
from prometheus_client import CollectorRegistry
from told_engine import MODEL, SECRET, SIZE, Text

from gateway.background import Background
from gateway.config import IndexConfig
from gateway.kv.stream import Subscription
from gateway.kv.subscriber import Subscriber
from gateway.kv.update import Update
from gateway.redis.parts import RedisParts
from routing.fleet import Fleet
from routing.fresh import FreshRoutes
from routing.history import RouteHistory
from routing.index import PrefixIndex
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch, ReplicaId

SPACE = Namespace(MODEL, SIZE)
PATIENCE = 20.0


@dataclass
class SharedGateway:
    """parts: of one process. local: what it knows by itself. updates: taken in so far; unjudged: groups by the last."""

    parts: RedisParts
    local: PrefixIndex
    history: RouteHistory
    registry: CollectorRegistry
    fleet: Fleet
    updates: int = 0
    unjudged: frozenset[int] = frozenset()

    def follow(self, engine: EngineId, publisher: Publisher) -> None:
        """As a member of the fleet."""
        self.parts.streams.subscribe(
            Subscription(engine, 1, publisher.endpoint, publisher.replay_endpoint, publisher.topic, MODEL)
        )

    async def match(self, blocks: Sequence[BlockHash]) -> dict[EngineId, PrefixMatch]:
        (found,) = await self.parts.match([(SPACE, blocks)])
        return dict(found)

    def comes_from(self) -> str:
        """Where matches do, by the metric that says so."""
        states = {
            state: self.registry.get_sample_value("kvgate_index_state", {"state": state})
            for state in ("redis", "local")
        }
        return " and ".join(state for state, value in states.items() if value)

    def deliver(self, update: Update) -> None:
        self.updates += 1
        self.unjudged = update.unjudged_groups
        self.local.apply(update.engine, update.changes)


@contextlib.asynccontextmanager
async def shared_gateway(url: str, *, lease: float = 1.0) -> AsyncIterator[SharedGateway]:
    """Runs until left; then it gives its leases back."""
    async with Background() as background:
        loop = asyncio.get_running_loop()
        local, history, fleet = PrefixIndex(), RouteHistory(1000, 1_000_000, 60.0), Fleet()
        registry = CollectorRegistry()

        def make(deliver: Callable[[Update], None]) -> Subscriber:
            return Subscriber(loop, deliver, SECRET)

        parts = RedisParts(
            IndexConfig(redis_url=url, lease=lease, deadline_ms=200), fleet, local, history,
            FreshRoutes(2.0), 2.0, make, lambda update: gateway.deliver(update), background,
            registry, loop.time,
        )  # fmt: skip
        gateway = SharedGateway(parts, local, history, registry, fleet)
        yield gateway
        await parts.close()
        parts.streams.close()


def stored(text: Text) -> dict[str, object]:
    """vLLM's event for a prompt's blocks."""
    tokens = [token for token in text for _ in range(SIZE)]
    hashes = [hash_of(text[: end + 1]) for end in range(len(text))]
    return {
        "type": "BlockStored", "block_hashes": hashes, "parent_block_hash": None, "token_ids": tokens,
        "block_size": SIZE, "lora_id": None, "medium": "GPU", "lora_name": None, "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }  # fmt: skip


def removed(text: Text) -> dict[str, object]:
    """vLLM's event for the last block of a prompt."""
    return {"type": "BlockRemoved", "block_hashes": [hash_of(text)], "medium": "GPU", "group_idx": 0}


def hash_of(text: Text) -> int:
    return hash(text) % 2**64


def engine(number: int) -> EngineId:
    return EngineId(ReplicaId(f"10.0.0.{number}:8000"), 0)


async def becomes(what: Callable[[], Awaitable[object]], expected: object) -> None:
    """Wait until asking gives what is expected."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while (found := await what()) != expected:
        assert loop.time() < end, f"still {found}, not {expected}"
        await asyncio.sleep(0.01)
