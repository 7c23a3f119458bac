"""Discovery as metrics, read off when somebody scrapes."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.fleet.discovery.discovery import Discovery


class DiscoveryCollector(Collector):
    """What each source knows and how it is doing."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    def collect(self) -> Iterable[Metric]:
        """One family for each metric, all sources in it."""
        replicas = GaugeMetricFamily(
            "kvgate_discovered_replicas", "Replicas a source names: serving or draining", None, ("source", "state")
        )
        faults = CounterMetricFamily(
            "kvgate_discovery_faults",
            "Answers a source did not give: api, broken, expired, unreadable, mark",
            None,
            ("source", "kind"),
        )
        success = GaugeMetricFamily(
            "kvgate_discovery_last_success_timestamp_seconds", "When the source last answered", None, ("source",)
        )
        told = self._discovery.told
        for source in self._discovery.sources:
            named = told.get(source.name, ())
            draining = sum(replica.draining for replica in named)
            replicas.add_metric((source.name, "serving"), len(named) - draining)
            replicas.add_metric((source.name, "draining"), draining)
            for kind, count in source.reports.faults.items():
                faults.add_metric((source.name, kind), count)
            if source.reports.last_success is not None:
                success.add_metric((source.name,), source.reports.last_success)
        return replicas, faults, success
