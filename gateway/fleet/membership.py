"""What follows when a replica joins or leaves: connections, event streams, what is known of its cache."""

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Protocol

import msgspec

from gateway.fleet.auditor import Auditor
from gateway.kv.sources import Source
from gateway.kv.stream import Subscription
from gateway.kv.update import Update
from gateway.metrics import Metrics
from gateway.prompt.library import Library
from gateway.prompt.remote import RemoteReader
from gateway.relay.pool import Pool
from routing.fleet import Fleet, Replica
from routing.fresh import FreshRoutes
from routing.history import RouteHistory
from routing.index import PrefixIndex
from routing.room import Room
from routing.types import EngineId, ReplicaId

logger = logging.getLogger(__name__)


class Streams(Protocol):
    """Where event streams are asked for: the subscriber, or what shares the streams among gateways."""

    def subscribe(self, subscription: Subscription) -> None:
        """Follow an engine."""

    def unsubscribe(self, engine: EngineId) -> None:
        """Follow it no longer."""


class Membership:
    """The one place that changes who is in the fleet, so that nothing of a replica outlives it.

    now: seconds of a monotonic clock, the one of decisions.
    """

    def __init__(
        self,
        fleet: Fleet,
        index: PrefixIndex,
        fresh: FreshRoutes,
        history: RouteHistory,
        room: Room,
        subscriber: Streams,
        library: Library,
        remote: RemoteReader,
        auditor: Auditor,
        make_pool: Callable[[str], Pool],
        metrics: Metrics,
        now: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._index = index
        self._fresh = fresh
        self._history = history
        self._room = room
        self._now = now
        self._subscriber = subscriber
        self._library = library
        self._remote = remote
        self._auditor = auditor
        self._make_pool = make_pool
        self._metrics = metrics
        self._pools: dict[ReplicaId, Pool] = {}
        self._streams: dict[EngineId, tuple[int, Source]] = {}
        self._updates: dict[EngineId, Update] = {}
        self._generations = count(1)

    def pool(self, replica: ReplicaId) -> Pool:
        """The connections to a member. Raises KeyError for one who has left."""
        return self._pools[replica]

    def pools(self) -> Mapping[ReplicaId, Pool]:
        """The connections to every member."""
        return self._pools

    def join(self, replica: Replica, sources: Mapping[int, Source]) -> None:
        """Take a replica in, or what changed about it. sources: where each rank's events are, by rank."""
        if replica.id not in self._pools:
            self._pools[replica.id] = self._make_pool(replica.url)
            self._metrics.replica_up.labels(replica.id).set(1)
            logger.info("replica %s joined: %s, %d engine(s)", replica.id, replica.base.id, replica.ranks)
        self._library.want(replica)
        for engine in self._fleet.join(replica):
            source = sources.get(engine.id.rank)
            known = self._streams.get(engine.id)
            if source is None or (known and known[1] == source):
                continue
            self._unsubscribe(engine.id)
            generation = next(self._generations)
            self._streams[engine.id] = generation, source
            self._subscriber.subscribe(
                Subscription(
                    engine.id, generation, source.endpoint, source.replay_endpoint, source.topic, replica.base.id,
                    replica.host_tokens,
                )
            )  # fmt: skip

    def leave(self, replica: ReplicaId, why: str) -> None:
        """Forget a replica and everything known of its caches. Running answers go on. Does nothing for a stranger."""
        pool = self._pools.pop(replica, None)
        if pool is None:
            return
        member = self._fleet.get(EngineId(replica, 0))
        if member:
            self._remote.forget(member.replica.url)
        for engine in self._fleet.leave(replica):
            self._unsubscribe(engine)
        pool.close()
        self._metrics.replica_up.labels(replica).set(0)
        logger.warning("replica %s left: %s", replica, why)

    def streams(self) -> Iterable[Update]:
        """The last word of each event stream."""
        return self._updates.values()

    def take_in(self, update: Update) -> None:
        """Apply what an event stream told. What a stream told before it was ended is dropped."""
        stream = self._streams.get(update.engine)
        if stream and stream[0] == update.generation:
            self._apply(update)
            self._auditor.took_in(update)
            if update.ended:
                self._updates.pop(update.engine, None)
                self._auditor.left(update.engine)
                self._room.forget(update.engine)  # not empty: who follows it from now on tells how full it is

    def close(self) -> None:
        """Close the connections."""
        for replica in list(self._pools):
            self.leave(replica, "the gateway stops")

    def _unsubscribe(self, engine: EngineId) -> None:
        if self._streams.pop(engine, None):
            self._subscriber.unsubscribe(engine)
            self._updates.pop(engine, None)
        self._auditor.left(engine)
        self._fleet.unjudged.discard(engine)
        self._index.forget(engine)
        self._fresh.forget(engine)
        self._history.forget(engine)
        self._room.forget(engine)

    def _apply(self, update: Update) -> None:
        id = update.engine
        engine = self._fleet.get(id)
        if engine is None:
            return
        if update.block_size is not None and update.block_size != engine.namespace.block_size:
            logger.error(
                "replica %s: events have blocks of %d tokens, the replica states %d; the events count",
                id.replica, update.block_size, engine.namespace.block_size,
            )  # fmt: skip
            self._metrics.block_size_mismatch.labels(id.replica).inc()
            self._fleet.learn_block_size(id, update.block_size)
        engine.looks_ahead = engine.looks_ahead or update.looks_ahead
        engine.windowed = engine.windowed or bool(update.windowed_groups)
        if update.windowed_groups and engine.recomputed_blocks:
            unjudged = update.unjudged_groups | update.windowed_groups
            update = msgspec.structs.replace(update, unjudged_groups=unjudged)
        self._updates[id] = update
        if update.unjudged_groups:
            # They can shorten a hit to nothing, so what the index says would be too much.
            self._fleet.unjudged.add(id)
            self._index.forget(id)
            self._room.forget(id)
            return
        self._index.apply(id, update.changes)
        self._room.apply(id, update.changes, self._now())
        self._fresh.apply(id, update.changes)
