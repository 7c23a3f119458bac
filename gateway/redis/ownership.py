"""Which event streams this gateway follows: it competes with the others for the lease of each."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from time import monotonic
from typing import Any

from gateway.kv.stream import Subscription
from gateway.kv.subscriber import Subscriber
from gateway.kv.update import Update
from gateway.redis.follower import Follower, Parts, Spawn
from gateway.redis.health import Health
from gateway.redis.redis_index import EngineRecord, RedisIndex, Round
from gateway.redis.scripts import RedisIndexError
from gateway.redis.shares import shares
from gateway.redis.sweeping import Sweeper
from routing.index import PrefixIndex
from routing.types import EngineId

logger = logging.getLogger(__name__)

_ROUNDS = 4
"""in the time that a lease lasts"""


class Ownership:
    """Stands where the subscriber would: what is subscribed to here is followed by one of the gateways.

    gateway: this process, unlike any other.
    deliver: takes an update of an owned stream into what this process knows, which is `local`.
    noticed: told how every engine stands, once a round.
    lease, retry: seconds. deadline: seconds after which Redis counts as slow.
    """

    def __init__(
        self,
        index: RedisIndex,
        health: Health,
        local: PrefixIndex,
        gateway: str,
        make_subscriber: Callable[[Callable[[Update], None]], Subscriber],
        deliver: Callable[[Update], None],
        noticed: Callable[[Mapping[EngineId, EngineRecord]], None],
        spawn: Spawn,
        *,
        lease: float,
        retry: float,
        deadline: float,
        forget: float,
    ) -> None:
        self._index = index
        self._health = health
        self._gateway = gateway
        self._noticed = noticed
        self._spawn = spawn
        self._lease = lease
        self._retry = retry
        self._deadline = deadline
        self._followers: dict[EngineId, Follower] = {}
        self._sweeper = Sweeper(index, forget)
        subscriber = make_subscriber(self._take_in)
        self._parts = Parts(index, local, subscriber, deliver, spawn, gateway, round(lease * 1000))

    def owned(self) -> frozenset[EngineId]:
        """The engines whose streams are followed here."""
        return frozenset(engine for engine, follower in self._followers.items() if follower.owned)

    def known(self) -> frozenset[EngineId]:
        """Those of them that are caught up with."""
        followers = self._followers.items()
        return frozenset(engine for engine, follower in followers if follower.owned and follower.owned.caught_up)

    def subscribe(self, subscription: Subscription) -> None:
        """As `Subscriber.subscribe`; it is followed here if the lease is had."""
        self._followers[subscription.engine] = Follower(self._parts, subscription)

    def unsubscribe(self, engine: EngineId) -> None:
        """The engine has left, or its stream has moved. If it is followed here, nothing stays known of it."""
        follower = self._followers.pop(engine, None)
        if follower:
            follower.ended = True
            self._spawn(self._quietly(follower, follower.give_up(forget=True)))

    def rebuild(self, engine: EngineId) -> None:
        """As `Subscriber.rebuild`, of an engine that is followed here."""
        self._parts.subscriber.rebuild(engine)

    def close(self) -> None:
        """End the subscriber's thread."""
        self._parts.subscriber.close()

    async def run(self) -> None:
        """Compete until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._lease):
                    await self._round()
            except (RedisIndexError, TimeoutError) as exc:
                self._health.failed(str(exc) or "no answer", surely=True)
            await asyncio.sleep(self._lease / _ROUNDS if self._health.up else self._retry)

    async def hand_over(self) -> None:
        """Give all leases back, for the other gateways to go on. Nothing is followed any more."""
        followers, self._followers = list(self._followers.values()), {}
        for each in followers:
            each.ended = True
        await asyncio.gather(*(self._quietly(each, each.give_up(forget=False)) for each in followers))
        try:
            await self._index.gateways(self._gateway, 0)
        except RedisIndexError:
            # It will be missed soon enough.
            return

    async def _round(self) -> None:
        asked = monotonic()
        gateways = await self._index.gateways(self._gateway, round(self._lease * 1000))
        slow = monotonic() - asked > self._deadline
        records: dict[EngineId, EngineRecord] = {}
        models = {follower.stream.model for follower in self._followers.values()}
        rounds = [await self._renew(model) for model in sorted(models)]
        if slow:
            # Too slow for requests; leases can wait for it.
            self._health.failed("it is slow")
        else:
            # No sooner: a server that comes back may tell of engines as they were, until leases are renewed.
            self._health.worked()
        for each in rounds:
            records.update(each.engines)
        self._noticed(records)
        rightful = shares(list(self._followers), gateways)
        for engine, follower in list(self._followers.items()):
            if not follower.busy:
                self._consider(follower, records.get(engine), rightful.get(engine), rounds)
        if self._gateway == min(gateways):
            self._sweeper.keep_clean(models, self._spawn)

    async def _renew(self, model: str) -> Round:
        standing = {
            engine: proof
            for engine, follower in self._followers.items()
            if follower.stream.model == model and (proof := follower.standing)
        }
        return await self._index.renew(model, self._parts.lease_ms, standing)

    def _consider(
        self, follower: Follower, record: EngineRecord | None, rightful: str | None, rounds: list[Round]
    ) -> None:
        engine, owned, now = follower.stream.engine, follower.owned, monotonic()
        if owned or (record and record.owned):
            follower.free_since = None
        elif follower.free_since is None:
            follower.free_since = now
        if owned:
            if owned.task.done():
                # A fault of ours in it: what the index has of the engine stays as it was, which is told no longer.
                self._start(follower, follower.give_up(forget=False))
            elif owned.writer.fenced or owned.writer.needs_whole or any(engine in each.lost for each in rounds):
                self._start(follower, follower.reclaim())
            elif (
                rightful != self._gateway
                # Who can't ask for what came meanwhile begins with nothing: that costs more than an uneven share.
                and follower.stream.replay_endpoint
                and any(engine in each.wanted for each in rounds)
            ):
                logger.info("KV events of %s: handed over", engine)
                self._start(follower, follower.give_up(forget=False))
            return
        # Redis that came back with nothing: who still follows the engine knows most, and has its chance first.
        lost = record is None and (follower.seen or self._health.recent(self._lease))
        follower.seen = follower.seen or record is not None
        if rightful == self._gateway and not lost:
            self._start(follower, follower.take(wanted=True))
        elif follower.free_since is not None and now - follower.free_since > self._lease:
            # Whose it would be does not want it: that gateway may not reach the engine.
            self._start(follower, follower.take(wanted=False))

    def _start(self, follower: Follower, step: Coroutine[Any, Any, None]) -> None:
        follower.busy = True
        self._spawn(self._quietly(follower, step))

    async def _quietly(self, follower: Follower, step: Coroutine[Any, Any, None]) -> None:
        try:
            await step
        except RedisIndexError as exc:
            logger.info("KV events of %s: %s", follower.stream.engine, exc)
        finally:
            follower.busy = False

    def _take_in(self, update: Update) -> None:
        follower = self._followers.get(update.engine)
        if follower:
            follower.take_in(update)
