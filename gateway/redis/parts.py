"""Builds what a gateway has for an index that it shares with others."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from socket import gethostname
from typing import Any
from uuid import uuid4

from prometheus_client import CollectorRegistry

from gateway.background import Background, ended
from gateway.config import IndexConfig
from gateway.fleet.others import Others
from gateway.kv.subscriber import Subscriber
from gateway.kv.update import Update
from gateway.redis.connect import connect
from gateway.redis.gossip import Gossip
from gateway.redis.health import Health
from gateway.redis.looks import Found
from gateway.redis.lookup import Lookup
from gateway.redis.ownership import Ownership
from gateway.redis.redis_index import EngineRecord, RedisIndex
from gateway.redis.state import SharedIndexCollector
from routing.fleet import Fleet
from routing.fresh import FreshRoutes
from routing.history import RouteHistory
from routing.index import INDEXED_TIERS, PrefixIndex
from routing.load import UnderWay
from routing.types import BlockHash, EngineId, Namespace, Tier

logger = logging.getLogger(__name__)

_HAND_OVER = 2.0
"""seconds that giving back all leases may take when the gateway stops"""


class RedisParts:
    """The objects and what runs beside the requests. Made inside a running event loop.

    local: holds what the streams that are followed here tell.
    deliver: takes an update of theirs into what this process knows.
    """

    def __init__(
        self,
        settings: IndexConfig,
        fleet: Fleet,
        local: PrefixIndex,
        history: RouteHistory,
        fresh: FreshRoutes,
        fresh_lifetime: float,
        make_subscriber: Callable[[Callable[[Update], None]], Subscriber],
        deliver: Callable[[Update], None],
        background: Background,
        registry: CollectorRegistry,
        now: Callable[[], float],
    ) -> None:
        """fresh_lifetime: of credits in `fresh`, seconds. now: seconds, monotonic."""
        self._fleet = fleet
        self._local = local
        self._history = history
        self._background = background
        self._tasks: set[asyncio.Task[None]] = set()
        self._records: Mapping[EngineId, EngineRecord] = {}
        deadline = settings.deadline_ms / 1000
        self._client = connect(settings)
        index = RedisIndex(self._client, settings.key_prefix)
        self.health = Health(now)
        self.lookup = Lookup(index, self.health, deadline, self._spawn, self._known_here)
        name = f"{gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self.streams = Ownership(
            index,
            self.health,
            local,
            name,
            make_subscriber,
            deliver,
            self._notice,
            self._spawn,
            lease=settings.lease,
            retry=settings.retry,
            deadline=deadline,
            forget=settings.forget,
        )
        others = Others(fleet, fresh, history, now)
        self.gossip = Gossip(
            self._client,
            f"{settings.key_prefix}gossip",
            name,
            others,
            self._under_way,
            lifetime=fresh_lifetime,
            interval=settings.tell_interval,
            retry=settings.retry,
        )
        registry.register(SharedIndexCollector(self.health, self.streams.owned, self.gossip, others))
        parts = (self.streams.run, self.gossip.tell, self.gossip.listen)
        self._running = [background.keep("shared index", part) for part in parts]

    async def match(self, chains: Sequence[tuple[Namespace, Sequence[BlockHash]]]) -> Sequence[Found]:
        """How long a prefix of each chain each engine holds, or what is known of it here. Never fails."""
        return await self.lookup.match(chains)

    def held(self, engine: EngineId, tier: Tier) -> int:
        """How many blocks the engine holds in this tier, as last heard."""
        if tier not in INDEXED_TIERS:
            return 0
        if engine in self.streams.owned():
            return self._local.held(engine, tier)
        record = self._records.get(engine)
        return (record.gpu, record.cpu)[tier] if record else 0

    def faults(self) -> list[str]:
        """What is not as it should be, in words."""
        if self.health.up:
            return []
        return [f"the index in Redis can't be asked, routing goes on by what is known here: {self.health.reason}"]

    async def close(self) -> None:
        """Give all leases back and stop."""
        await ended(self._running)
        try:
            async with asyncio.timeout(_HAND_OVER):
                await self.streams.hand_over()
                await self.gossip.leave()
        except TimeoutError:
            logger.warning("leases were not given back in time; they expire")
        await ended(self._tasks)
        await self._client.aclose()

    def _under_way(self) -> Mapping[EngineId, UnderWay]:
        # Asked for thirty times a second, of engines that are mostly idle.
        busy = [engine for engine in self._fleet if engine.load.in_flight]
        return {engine.id: ours for engine in busy if (ours := engine.load.ours).in_flight}

    def _known_here(self, blocks: Sequence[BlockHash]) -> Found:
        """What the streams that are followed here tell, and of the other engines what was sent there."""
        followed = self.streams.known()
        sent = self._history.match(blocks)
        known = {engine: match for engine, match in sent.items() if engine not in followed}
        known.update((engine, match) for engine, match in self._local.match(blocks).items() if engine in followed)
        return known

    def _notice(self, records: Mapping[EngineId, EngineRecord]) -> None:
        self._records = records
        for id, record in records.items():
            engine = self._fleet.get(id)
            if engine and record.unjudged:
                self._fleet.unjudged.add(id)
            if engine and record.looks_ahead:
                engine.looks_ahead = True
            if engine and record.block_size not in (None, engine.namespace.block_size):
                assert record.block_size is not None
                self._fleet.learn_block_size(id, record.block_size)

    def _spawn(self, step: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._background.once("shared index", step)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
