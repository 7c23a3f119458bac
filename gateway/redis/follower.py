"""One engine's event stream, while this gateway may own it."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gateway.kv.actions import FeedCounters
from gateway.kv.stream import Subscription
from gateway.kv.subscriber import Subscriber
from gateway.kv.update import Update
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import RedisIndexError
from gateway.redis.tenure import acquire
from gateway.redis.writer import Writer
from routing.changes import Change, Put, Wipe
from routing.index import INDEXED_TIERS, PrefixIndex

Deliver = Callable[[Update], None]
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]

_HAND_OVER = 1.0
"""seconds that a write under way gets to end before the lease is given up"""


@dataclass(slots=True)
class Owned:
    """A stream that is followed under a lease. number: the generation that the subscriber knows it by."""

    writer: Writer
    number: int
    task: "asyncio.Task[None]"
    unjudged: bool = False
    caught_up: bool = False
    """what was missed before the lease was had is known"""


@dataclass(slots=True)
class Parts:
    """What every follower works with."""

    index: RedisIndex
    local: PrefixIndex
    subscriber: Subscriber
    deliver: Deliver
    """takes an update into what this process knows"""
    spawn: Spawn
    gateway: str
    lease_ms: int
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(8))
    numbers: int = 0


class Follower:
    """Takes, keeps, and gives up the lease of one engine's stream; follows the stream exactly while it has it."""

    def __init__(self, parts: Parts, stream: Subscription) -> None:
        self._parts = parts
        self.stream = stream
        self.owned: Owned | None = None
        self.busy = False
        """an exchange about the lease is under way"""
        self.seen = False
        """Redis had it before"""
        self.free_since: float | None = None
        """since when nobody has been seen to own it"""
        self.ended = False
        """nobody asks for the stream here any more"""

    @property
    def standing(self) -> str | None:
        """What proves the lease, and what was written under it; None without one."""
        return self.owned.writer.tenure.standing if self.owned else None

    def take_in(self, update: Update) -> None:
        """What the stream told."""
        owned = self.owned
        if owned is None or owned.number != update.generation:
            return
        owned.caught_up |= update.settled
        # A hybrid model's groups hold sparsely what a bitmap says to be whole.
        unjudged = update.unjudged_groups | update.windowed_groups
        update = msgspec.structs.replace(update, generation=self.stream.generation, unjudged_groups=unjudged)
        self._parts.deliver(update)
        if unjudged:
            changes = [] if owned.unjudged and not owned.writer.needs_whole else [Wipe(None)]
            update = msgspec.structs.replace(update, changes=changes, entries=None, position=None)
            owned.unjudged = True
        owned.writer.add(update)

    async def take(self, *, wanted: bool) -> None:
        """Take the lease if it is free, and go on where the owner before stopped. Raises RedisIndexError."""
        parts, stream = self._parts, self.stream
        tenure = await acquire(parts.index, stream.model, stream.engine, parts.gateway, parts.lease_ms, wanted=wanted)
        if tenure is None:
            return
        if self.ended:
            await tenure.release(forget=False)
            return
        parts.numbers += 1
        writer = Writer(tenure, lambda tier: parts.local.blocks(stream.engine, tier), parts.turns)
        self.owned = owned = Owned(writer, parts.numbers, parts.spawn(writer.run()))
        try:
            kept = await tenure.load() if stream.replay_endpoint else None
        except RedisIndexError:
            self._drop()
            raise
        if self.owned is not owned:
            return
        if kept is None:
            # Whatever is there goes before anything of the new stream is seen.
            writer.add(self._synthetic([Wipe(None)]))
        else:
            held = [Put(tier, list(kept.books.held[tier])) for tier in INDEXED_TIERS]
            parts.deliver(self._synthetic([Wipe(None), *held]))
        parts.subscriber.subscribe(replace(stream, generation=owned.number, recorded=True, kept=kept))

    async def reclaim(self) -> None:
        """The lease was lost: take it back, or let the stream go if another has it. Raises RedisIndexError."""
        owned, parts, stream = self.owned, self._parts, self.stream
        assert owned is not None
        before = owned.writer.tenure
        tenure = await acquire(parts.index, stream.model, stream.engine, parts.gateway, parts.lease_ms)
        if tenure is None:
            if self.owned is owned:
                self._drop()
            return
        if self.owned is not owned:
            await tenure.release(forget=False)
            return
        whole = owned.writer.needs_whole or not tenure.goes_on_from(before)
        if whole:
            owned.writer.start_over(tenure)
        else:
            owned.writer.go_on(tenure)
        # No match tells of the engine until its owner has written again, which it does not without something to tell.
        parts.subscriber.tell(stream.engine, whole=whole)

    async def give_up(self, *, forget: bool) -> None:
        """Follow the stream no longer, and give the lease back. Raises RedisIndexError."""
        owned = self.owned
        if owned is None:
            return
        self._parts.subscriber.unsubscribe(self.stream.engine)
        tenure = owned.writer.tenure
        if not forget:
            try:
                async with asyncio.timeout(_HAND_OVER):
                    await owned.writer.written()
            except TimeoutError:
                # What is not written is replayed to the next owner.
                pass
        self._drop()
        await tenure.release(forget=forget)

    def _drop(self) -> None:
        owned, self.owned = self.owned, None
        if owned is not None:
            owned.task.cancel()
            self._parts.subscriber.unsubscribe(self.stream.engine)
            self._parts.deliver(msgspec.structs.replace(self._synthetic([Wipe(None)]), ended=True))

    def _synthetic(self, changes: list[Change]) -> Update:
        return Update(
            self.stream.engine, self.stream.generation, changes, None, frozenset(), FeedCounters(), settled=False
        )
