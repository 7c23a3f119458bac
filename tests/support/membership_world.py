"""The one place that changes who is in the fleet, with everything that it keeps in step."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

import httpx

from gateway.background import Background
from gateway.config import AuditConfig, Config
from gateway.fleet.auditor import Auditor
from gateway.fleet.membership import Membership
from gateway.kv.actions import FeedCounters
from gateway.kv.sources import Source
from gateway.kv.subscriber import Subscriber
from gateway.kv.update import Update
from gateway.metrics import Metrics
from gateway.prompt.library import Library
from gateway.prompt.remote import RemoteReader
from gateway.relay.origin import Origin
from gateway.relay.pool import Pool
from routing.fleet import Fleet, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.history import RouteHistory
from routing.index import PrefixIndex
from routing.ledger import Change
from routing.reuse import ReuseChance
from routing.room import Room
from routing.types import EngineId, ReplicaId

A = EngineId(ReplicaId("127.0.0.1:9"), 0)
FOLLOWED_ELSEWHERE = 7
"""blocks that an engine holds by what another gateway tells"""
SOURCES: Mapping[int, Source] = {0: Source("tcp://127.0.0.1:9", None, "")}


def replica(id: ReplicaId = A.replica, *, ranks: int = 1, block_size: int = 16, root: str = "/nowhere") -> Replica:
    return Replica(id, f"http://{id}", (ModelCard("m", root),), ranks=ranks, block_size=block_size)


def update(
    generation: int, changes: Sequence[Change], *, block_size: int = 16, unjudged: frozenset[int] = frozenset()
) -> Update:
    return Update(A, generation, changes, block_size, unjudged, FeedCounters())


@dataclass
class World:
    fleet: Fleet
    index: PrefixIndex
    fresh: FreshRoutes
    room: Room
    membership: Membership
    metrics: Metrics
    auditor: Auditor


@asynccontextmanager
async def membership_world() -> AsyncIterator[World]:
    """An empty fleet whose event streams are really followed."""
    fleet, index, fresh, metrics = Fleet(), PrefixIndex(), FreshRoutes(2.0), Metrics()
    room = Room(ReuseChance(), 600.0, lambda engine: FOLLOWED_ELSEWHERE)
    now = time.monotonic
    subscriber = Subscriber(asyncio.get_running_loop(), lambda update: membership.take_in(update), b"")
    auditor = Auditor(AuditConfig(), subscriber.rebuild, metrics, now)
    with ThreadPoolExecutor(1) as executor:
        async with httpx.AsyncClient() as client, Background() as background:
            library = Library(Config(), executor, background)
            membership = Membership(
                fleet,
                index,
                fresh,
                RouteHistory(100, 1_000_000, 60.0),
                room,
                subscriber,
                library,
                RemoteReader(client, now),
                auditor,
                lambda url: Pool(Origin.parse(url)),
                metrics,
                monotonic,
            )
            yield World(fleet, index, fresh, room, membership, metrics, auditor)
            library.close()
    membership.close()
    subscriber.close()
