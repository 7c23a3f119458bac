"""Writes one engine's updates for as long as its tenure lasts."""

import asyncio
import logging
from collections.abc import Callable, Set

from gateway.kv.update import Update
from gateway.redis.batch import Batch
from gateway.redis.scripts import Fenced, RedisIndexError
from gateway.redis.tenure import Tenure
from routing.changes import wipes_all
from routing.types import BlockHash, Tier

logger = logging.getLogger(__name__)

_PAUSE = 0.25
"""seconds from a write without an answer to the next attempt"""
_ROOM = 500_000
"""blocks that may wait to be written; with more, everything is written anew once Redis answers"""


class Writer:
    """Collects what is to be written while a write is under way, so that a slow Redis gets fewer and larger ones.

    While a replay decides about what is booked, nothing is written but that all is forgotten: the index never shows a
    state that the engine left long ago.

    remaining: what the engine holds in a tier by all updates so far.
    turns: bounds the writes under way at once.
    """

    def __init__(self, tenure: Tenure, remaining: Callable[[Tier], Set[BlockHash]], turns: asyncio.Semaphore) -> None:
        self.tenure = tenure
        self.fenced = False
        """the tenure is over; `go_on` or `start_over` with another"""
        self.needs_whole = False
        """nothing is written until an update tells everything anew"""
        self._remaining = remaining
        self._turns = turns
        self._batch: Batch | None = None
        self._unwritten: Batch | None = None
        self._whole = True
        self._ready = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, update: Update) -> None:
        """Take in an update, which is applied here already."""
        if self.needs_whole:
            if not wipes_all(update.changes):
                return
            self.needs_whole = False
        batch = self._batch = self._batch or Batch()
        batch.unjudged = bool(update.unjudged_groups)
        batch.add(update.changes, update.entries, update.position, self._remaining)
        if len(batch) > _ROOM:
            self._forget()
            return
        self._whole = update.complete and update.settled
        if self._whole or batch.reset == "all":
            self._idle.clear()
            self._ready.set()

    def go_on(self, tenure: Tenure) -> None:
        """Write under another tenure, which found the engine as it was left."""
        self.tenure, self.fenced = tenure, False
        self._ready.set()

    def start_over(self, tenure: Tenure) -> None:
        """Write everything under another tenure, once an update tells it."""
        self._forget()
        self.go_on(tenure)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            if self.fenced:
                continue
            batch = self._take()
            if self._unwritten and batch:
                self._unwritten.follow(batch)
            under_way = self._unwritten = self._unwritten or batch
            if under_way:
                try:
                    async with self._turns:
                        await self.tenure.apply(under_way)
                except Fenced as exc:
                    logger.info("KV events of %s: %s", self.tenure.engine, exc)
                    self.fenced = True
                    continue
                except RedisIndexError:
                    await asyncio.sleep(_PAUSE)
                    self._ready.set()
                    continue
                if self._unwritten is under_way:
                    self._unwritten = None
            if not self._ready.is_set():
                self._idle.set()

    async def written(self) -> None:
        """Wait until everything that may be written is."""
        await self._idle.wait()

    def _forget(self) -> None:
        self._batch = self._unwritten = None
        self.needs_whole = True

    def _take(self) -> Batch | None:
        """What may be written now."""
        batch = self._batch
        if batch is not None and self._whole:
            self._batch = None
            return batch
        if batch is not None and batch.reset == "all":
            batch.reset = ""
            return Batch("all")
        return None
