"""From the poller thread to the event loop: what changed at an engine, a bounded amount at a time."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gateway.kv.actions import FeedCounters
from gateway.kv.position import Position
from routing.books import Entries
from routing.changes import Change, Wipe, wipes_all
from routing.types import EngineId

_CHANGE = 8
"""blocks that a change costs as much as, besides its own"""


class Update(msgspec.Struct, frozen=True):
    """What an engine's events changed since the last update, and where its stream stands."""

    engine: EngineId
    generation: int
    """as given to `subscribe`; an update of an older one must be dropped"""
    changes: Sequence[Change]
    """for the index, in order"""
    block_size: int | None
    """tokens per block; None until known"""
    unjudged_groups: frozenset[int]
    """KV-cache groups that can shorten a hit and are not in the index; if any, its prefixes are upper bounds"""
    feed: FeedCounters
    windowed_groups: frozenset[int] = frozenset()
    """KV-cache groups of a hybrid model whose changes are `WindowPut` and `WindowDrop`"""
    looks_ahead: bool = False
    """the engine drafts with EAGLE or MTP: the last block of a prefix found is none of its hits"""
    orphans: int = 0
    """blocks the engine holds that can't be named"""
    unplaced: int = 0
    """blocks announced so far whose tokens don't fit their hashes"""
    stored_in_storage: int = 0
    """blocks announced in tier STORAGE so far"""
    ignored: Mapping[str, int] = {}
    """events left out so far, by reason (`wire.Batch.ignored`)"""
    entries: Entries | None = None
    """what changed in the books, of a recorded stream"""
    position: Position | None = None
    """how far the stream is applied; None where it can't be gone on with"""
    settled: bool = True
    """no replay decides about what is booked"""
    complete: bool = True
    """the last part of what was booked together; entries and position come with it"""
    ended: bool = False
    """the stream is not followed here any more"""


class Outbox:
    """Updates on their way to the loop. While the loop is busy, those of one engine grow into one.

    deliver: called in the loop.
    budget: blocks handed over in one go, which takes 2 to 3 ms; the loop does its other work between two goes.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, deliver: Callable[[Update], None], *, budget: int = 1024
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._budget = budget
        self._lock = threading.Lock()
        self._pending: dict[tuple[EngineId, int], Update] = {}
        self._scheduled = False
        self._parts: deque[Update] = deque()

    def put(self, update: Update) -> None:
        """Called in the thread; `flush` sends it on its way."""
        key = (update.engine, update.generation)
        with self._lock:
            waiting = self._pending.get(key)
            if waiting is not None:
                update = _joined(waiting, update)
            self._pending[key] = update

    def flush(self) -> None:
        """Called in the thread."""
        with self._lock:
            if self._scheduled or not self._pending:
                return
            self._scheduled = True
        try:
            self._loop.call_soon_threadsafe(self._hand_over)
        except RuntimeError:
            # The loop is closed: nobody is left to tell.
            return

    def _hand_over(self) -> None:
        if not self._parts:
            with self._lock:
                pending, self._pending = self._pending, {}
                self._scheduled = bool(pending)
            self._parts.extend(part for update in pending.values() for part in _cut(update, self._budget))
        budget = self._budget
        try:
            while self._parts and budget > 0:
                part = self._parts.popleft()
                budget -= 1 + sum(map(_weight, part.changes))
                self._deliver(part)
        finally:
            if self._scheduled:
                self._loop.call_soon(self._hand_over)


def _joined(earlier: Update, later: Update) -> Update:
    if wipes_all(later.changes):
        return later
    entries = later.entries
    if earlier.entries and entries:
        entries = Entries(
            {**earlier.entries.names, **entries.names}, {**earlier.entries.copies, **entries.copies}, entries.traits
        )
    return msgspec.structs.replace(later, changes=[*earlier.changes, *later.changes], entries=entries)


def _weight(change: Change) -> int:
    return _CHANGE + (0 if isinstance(change, Wipe) else len(change.blocks))


def _cut(update: Update, budget: int) -> Sequence[Update]:
    if sum(map(_weight, update.changes)) <= budget:
        return [update]
    parts: list[Update] = []
    changes: list[Change] = []
    weight = 0
    for change in update.changes:
        changes.append(change)
        weight += _weight(change)
        if weight >= budget:
            parts.append(msgspec.structs.replace(update, changes=changes, entries=None, position=None, complete=False))
            changes, weight = [], 0
    if changes or update.entries is not None:
        parts.append(msgspec.structs.replace(update, changes=changes))
    else:
        parts[-1] = msgspec.structs.replace(update, changes=parts[-1].changes)
    return parts
