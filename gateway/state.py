"""Metrics that are read off the gateway's state when somebody scrapes, and cost nothing in between."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.fleet.membership import Membership
from routing.fleet import Fleet
from routing.health import Health
from routing.index import INDEXED_TIERS, Holding

_ENGINE = ("replica", "engine")


class StateCollector(Collector):
    """Fleet, index and event streams as metrics."""

    def __init__(
        self,
        fleet: Fleet,
        health: Health,
        index: Holding,
        membership: Membership,
        now: Callable[[], float],
    ) -> None:
        """now: seconds of the clock that `health` is told and event streams are timed by."""
        self._fleet = fleet
        self._health = health
        self._now = now
        self._index = index
        self._membership = membership

    def collect(self) -> Iterable[Metric]:
        """One family for each metric, all engines in it."""
        yield self._states()
        yield self._connections()
        yield from self._engines()
        yield from self._streams()

    def _states(self) -> Metric:
        family = GaugeMetricFamily(
            "kvgate_replica_state",
            "1 for what a member is: ready, fresh, draining, asleep, open, half_open",
            None,
            ("replica", "state"),
        )
        for replica, state in self._health.states(self._now()):
            family.add_metric((replica, state), 1.0)
        return family

    def _connections(self) -> Metric:
        family = GaugeMetricFamily(
            "kvgate_upstream_connections",
            "Connections to a replica: in_use, idle; queued: requests that wait for one",
            None,
            ("replica", "state"),
        )
        for replica, pool in self._membership.pools().items():
            for state, count in (("in_use", pool.in_use), ("idle", pool.idle), ("queued", pool.queued)):
                family.add_metric((replica, state), count)
        return family

    def _engines(self) -> Iterator[Metric]:
        in_flight = GaugeMetricFamily(
            "kvgate_in_flight", "Leases that are out: requests sent and not ended", None, _ENGINE
        )
        waiting = GaugeMetricFamily(
            "kvgate_engine_waiting", "Requests waiting there, as it last reported", None, _ENGINE
        )
        running = GaugeMetricFamily(
            "kvgate_engine_running", "Requests running there, as it last reported", None, _ENGINE
        )
        blocks = GaugeMetricFamily("kvgate_index_blocks", "Blocks held, as events tell", None, (*_ENGINE, "tier"))
        for engine in self._fleet:
            labels = (engine.id.replica, str(engine.id.rank))
            in_flight.add_metric(labels, engine.load.ours.in_flight)
            waiting.add_metric(labels, engine.load.report.waiting)
            running.add_metric(labels, engine.load.report.running)
            for tier in INDEXED_TIERS:
                blocks.add_metric((*labels, tier.name), self._index.held(engine.id, tier))
        return iter((in_flight, waiting, running, blocks))

    def _streams(self) -> Iterator[Metric]:
        faults = CounterMetricFamily(
            "kvgate_kv_event_faults",
            "Event stream: gap, replay, check, failed_replay, restart, clear, unreadable, rebuild, orphan, unplaced",
            None,
            (*_ENGINE, "kind"),
        )
        ignored = CounterMetricFamily(
            "kvgate_kv_events_ignored", "Events and fields left out, by what they were", None, (*_ENGINE, "kind")
        )
        sequence = GaugeMetricFamily("kvgate_kv_sequence", "Number of the last message applied", None, _ENGINE)
        applied = GaugeMetricFamily(
            "kvgate_kv_last_event_timestamp_seconds", "When the engine wrote the last batch applied", None, _ENGINE
        )
        quiet = GaugeMetricFamily("kvgate_kv_last_event_age_seconds", "Since a message was last applied", None, _ENGINE)
        stale = GaugeMetricFamily(
            "kvgate_kv_staleness_seconds",
            "Since it was last certain that nothing is missing: what the index lacks is not older",
            None,
            _ENGINE,
        )
        lag = GaugeMetricFamily(
            "kvgate_kv_sequence_lag", "Messages that came and wait to be applied, or are missing", None, _ENGINE
        )
        now = self._now()
        unjudged = GaugeMetricFamily(
            "kvgate_kv_unjudged_groups", "KV-cache groups that can shorten a hit and are not indexed", None, _ENGINE
        )
        for update in self._membership.streams():
            labels = (update.engine.replica, str(update.engine.rank))
            feed = update.feed
            counts = {
                "gap": feed.gaps, "replay": feed.replays, "check": feed.checks, "failed_replay": feed.failed_replays,
                "restart": feed.restarts, "clear": feed.clears, "unreadable": feed.unreadable, "rebuild": feed.rebuilds,
                "orphan": update.orphans, "unplaced": update.unplaced,
            }  # fmt: skip
            for kind, count in counts.items():
                faults.add_metric((*labels, kind), count)
            for kind, count in update.ignored.items():
                ignored.add_metric((*labels, kind), count)
            unjudged.add_metric(labels, len(update.unjudged_groups))
            if feed.applied_at is not None:
                quiet.add_metric(labels, now - feed.applied_at)
            if feed.confirmed_at is not None:
                stale.add_metric(labels, now - feed.confirmed_at)
            if feed.heard_seq is not None:
                applied_seq = -1 if feed.last_seq is None else feed.last_seq
                lag.add_metric(labels, max(0, feed.heard_seq - applied_seq))
            if feed.last_seq is not None and feed.last_ts is not None:
                sequence.add_metric(labels, feed.last_seq)
                applied.add_metric(labels, feed.last_ts)
        families: Sequence[Metric] = (faults, ignored, sequence, applied, quiet, stale, lag, unjudged)
        return iter(families)
