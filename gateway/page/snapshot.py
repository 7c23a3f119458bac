"""What the dashboard and `kvgate top` show, as one JSON document a second."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from gateway.api.explain import summary
from gateway.config import Config
from gateway.decisions import DecisionRing
from gateway.kv.update import Update
from gateway.page.traffic import Traffic
from routing.fleet import Engine, Fleet
from routing.health import Health
from routing.index import INDEXED_TIERS, Holding
from routing.policies import POLICIES

_LATE = 5.0
"""Seconds for which an engine that works may leave its events unconfirmed."""
_DECISIONS = 20
_MINUTE = 60.0
_AT_ONCE = 16
"""engines in one turn of the event loop"""


class Snapshots:
    """Makes the documents; however many watch, one a second is made, and where nobody does, none.

    streams: the last word of each event stream. more: further parts of the document, by name.
    now: seconds of a monotonic clock, the one that event streams are timed with.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        degraded: Callable[[], Sequence[str]],
        fleet: Fleet,
        health: Health,
        index: Holding,
        streams: Callable[[], Iterable[Update]],
        more: Callable[[], Mapping[str, object]],
        traffic: Traffic,
        decisions: DecisionRing,
        now: Callable[[], float],
    ) -> None:
        self._config = config
        self._degraded = degraded
        self._fleet = fleet
        self._health = health
        self._index = index
        self._more = more
        self._streams = streams
        self._traffic = traffic
        self._decisions = decisions
        self._now = now
        self._made_at: float | None = None
        self._made = b""
        self._making = asyncio.Lock()
        self._slices: Mapping[float, msgspec.Raw] = {}
        self._summaries: Mapping[bytes, msgspec.Raw] = {}

    async def current(self) -> bytes:
        """The document as it is now, at most a second old. The loop does its other work between the parts of it."""
        async with self._making:
            now = self._now()
            if self._made_at is None or now - self._made_at >= 0.95:
                engines, recent = await self._engines(now), await self._recent()
                self._made = msgspec.json.encode(self._make(engines, recent))
                self._made_at = now
            return self._made

    async def _engines(self, now: float) -> Sequence[msgspec.Raw]:
        streams = {update.engine: update for update in self._streams()}
        engines, rows = sorted(self._fleet, key=lambda engine: engine.id), []
        for begin in range(0, len(engines), _AT_ONCE):
            rows += [
                _encoded(self._engine(engine, streams.get(engine.id), now))
                for engine in engines[begin : begin + _AT_ONCE]
            ]
            await asyncio.sleep(0)
        return rows

    def _series(self) -> Sequence[msgspec.Raw]:
        """The slices of traffic; those that are over do not change any more."""
        parts = self._traffic.series()
        self._slices = {part.begun: self._slices.get(part.begun) or _encoded(part.shown()) for part in parts[:-1]}
        return [*self._slices.values(), *(_encoded(part.shown()) for part in parts[-1:])]

    async def _recent(self) -> Sequence[msgspec.Raw]:
        """The last decisions; what is over does not change any more."""
        summaries = {}
        for kept in self._decisions.recent(_DECISIONS):
            line = kept.line
            if line not in self._summaries:
                await asyncio.sleep(0)
            summaries[line] = self._summaries.get(line) or _encoded(summary(self._decisions.keep(kept)))
        self._summaries = summaries
        return list(summaries.values())

    def _make(self, engines: Sequence[msgspec.Raw], recent: Sequence[msgspec.Raw]) -> Mapping[str, object]:
        config = self._config()
        return {
            "at": round(time.time(), 3),
            "policy": config.policy,
            "policies": list(POLICIES),
            "may_switch": config.page.policy_switch,
            "degraded": list(self._degraded()),
            "engines": engines,
            **self._more(),
            "minute": self._traffic.last(_MINUTE).shown(),
            "series": self._series(),
            "decided": self._decisions.added,
            "decisions": recent,
        }

    def _engine(self, engine: Engine, stream: Update | None, now: float) -> Mapping[str, object]:
        id, load = engine.id, engine.load
        return {
            "replica": id.replica,
            "engine": id.rank,
            "model": engine.namespace.model,
            "health": self._health.state(id.replica, now),
            "block_size": engine.namespace.block_size,
            "capacity_blocks": engine.replica.capacity_blocks,
            "blocks": {tier.name: self._index.held(id, tier) for tier in INDEXED_TIERS},
            "in_flight": load.in_flight,
            "pending_tokens": load.pending_tokens,
            "running": load.report.running,
            "waiting": load.report.waiting,
            "kv_usage": load.report.kv_usage,
            "events": _events(stream, now, busy=load.in_flight > 0 or load.report.running > 0),
        }


def _encoded(part: Mapping[str, object]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(part))


def _events(stream: Update | None, now: float, *, busy: bool) -> Mapping[str, object] | None:
    """None where the engine tells of no events: its cache can't be known."""
    if stream is None:
        return None
    feed = stream.feed
    age = None if feed.confirmed_at is None else max(0.0, now - feed.confirmed_at)
    return {
        "confirmed_s_ago": None if age is None else round(age, 2),
        "late": age is None or (busy and age > _LATE),
        "sequence": feed.last_seq,
        "gaps": feed.gaps,
        "restarts": feed.restarts,
        "clears": feed.clears,
        "unreadable": feed.unreadable,
        "unjudged_groups": len(stream.unjudged_groups),
    }
