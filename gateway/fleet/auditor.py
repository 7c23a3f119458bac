"""Compares what the index said with what engines report, and has an index that drifted rebuilt."""

import logging
from collections.abc import Callable

from gateway.config.audit import AuditConfig
from gateway.kv.update import Update
from gateway.metrics import Metrics
from gateway.relay.record import Ended
from routing.audit import Audit
from routing.types import EngineId

logger = logging.getLogger(__name__)


class Auditor:
    """Audits the engines whose event streams end here.

    rebuild: has what is known of an engine forgotten and told again.
    now: seconds of the monotonic clock that streams and requests are timed by.
    """

    def __init__(
        self, config: AuditConfig, rebuild: Callable[[EngineId], None], metrics: Metrics, now: Callable[[], float]
    ) -> None:
        self._audit = Audit(window=config.window, level=config.level)
        self._rebuild = rebuild
        self._metrics = metrics
        self._now = now

    def took_in(self, update: Update) -> None:
        """The index has taken in an update."""
        engine = update.engine
        if update.unjudged_groups:
            self._audit.forget(engine)
            return
        self._audit.took_in(engine, update.changes, self._now())
        if update.feed.confirmed_at is None:
            return
        for verdict in self._audit.confirmed(engine, update.feed.confirmed_at):
            self._metrics.audit.labels(engine.replica, str(engine.rank), verdict.value).inc()
        if self._audit.must_rebuild(engine):
            logger.error(
                "replica %s, engine %d: the index has blocks that the engine has not; what is known of it is rebuilt",
                engine.replica, engine.rank,
            )  # fmt: skip
            self._metrics.index_rebuilds.labels(engine.replica, str(engine.rank)).inc()
            self._rebuild(engine)

    def ended(self, ended: Ended) -> None:
        """A request is over; an engine may have reported how many tokens of its prompt it found."""
        record, arrived = ended.record, ended.inbound.arrived
        matched, usage = record.decision.matched, record.usage
        if matched is None or usage is None or usage.cached_tokens is None or not record.single:
            return
        found = usage.cached_tokens // matched.block_size
        until = arrived + record.duration
        self._audit.sample(record.decision.engine, matched.blocks, matched.in_gpu, found, arrived, until)

    def left(self, engine: EngineId) -> None:
        """The engine is not followed any more."""
        self._audit.forget(engine)
