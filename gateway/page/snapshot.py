"""What the dashboard and `kvgate top` show, as one JSON document a second."""

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gateway.api.explain import summary
from gateway.config import Config
from gateway.decisions import DecisionRing
from gateway.fleet.membership import Membership
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


class Snapshots:
    """Makes the documents; however many watch, one a second is made.

    more: further parts of the document, by name.
    now: seconds of a monotonic clock, the one that event streams are timed with.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        degraded: Callable[[], Sequence[str]],
        fleet: Fleet,
        health: Health,
        index: Holding,
        membership: Membership,
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
        self._membership = membership
        self._traffic = traffic
        self._decisions = decisions
        self._now = now
        self._made_at: float | None = None
        self._made = b""

    def current(self) -> bytes:
        """The document as it is now, at most a second old."""
        now = self._now()
        if self._made_at is None or now - self._made_at >= 0.95:
            self._made_at = now
            self._made = msgspec.json.encode(self._make(now))
        return self._made

    def _make(self, now: float) -> Mapping[str, object]:
        config = self._config()
        streams = {update.engine: update for update in self._membership.streams()}
        return {
            "at": round(time.time(), 3),
            "policy": config.policy,
            "policies": list(POLICIES),
            "may_switch": config.page.policy_switch,
            "degraded": list(self._degraded()),
            "engines": [
                self._engine(engine, streams.get(engine.id), now)
                for engine in sorted(self._fleet, key=lambda engine: engine.id)
            ],
            **self._more(),
            "minute": self._traffic.last(_MINUTE).shown(),
            "series": [part.shown() for part in self._traffic.series()],
            "decided": self._decisions.added,
            "decisions": [summary(record) for record in self._decisions.recent(_DECISIONS)],
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
