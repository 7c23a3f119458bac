"""What is shared and what is not, as metrics that are read off when somebody scrapes."""

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.fleet.others import Others
from gateway.redis.gossip import Gossip
from gateway.redis.health import Health
from routing.types import EngineId


class SharedIndexCollector(Collector):
    """The state of the shared index as seen from this process."""

    def __init__(
        self, health: Health, owned: Callable[[], frozenset[EngineId]], gossip: Gossip, others: Others
    ) -> None:
        self._health = health
        self._owned = owned
        self._gossip = gossip
        self._others = others

    def collect(self) -> Iterable[Metric]:
        """One family for each metric."""
        state = GaugeMetricFamily("kvgate_index_state", "1 for where matches come from: redis, local", None, ("state",))
        state.add_metric(("redis",), int(self._health.up))
        state.add_metric(("local",), int(not self._health.up))
        outages = CounterMetricFamily("kvgate_index_outages", "Times that Redis could not be asked any more")
        outages.add_metric((), self._health.outages)
        owned = GaugeMetricFamily(
            "kvgate_index_owned", "1 for engines whose events this process takes in", None, ("replica", "engine")
        )
        for engine in sorted(self._owned()):
            owned.add_metric((engine.replica, str(engine.rank)), 1)
        words = CounterMetricFamily(
            "kvgate_gossip", "Words exchanged with other gateways: told, heard, unreadable", None, ("kind",)
        )
        gossip = self._gossip
        for kind, count in (("told", gossip.told), ("heard", gossip.heard), ("unreadable", gossip.unreadable)):
            words.add_metric((kind,), count)
        others = GaugeMetricFamily("kvgate_gossip_gateways", "Other gateways heard lately")
        others.add_metric((), len(self._others))
        return (state, outages, owned, words, others)
