"""The same figures under the names that HyperPod's operators have in their dashboards, read off at a scrape."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.metrics import Metrics
from routing.fleet import Fleet


class AliasCollector(Collector):
    """`model_invocations_total`, `model_errors_total`, `model_concurrent_requests`, `model_latency_milliseconds` and
    `model_ttfb_milliseconds`, by model."""

    def __init__(self, metrics: Metrics, fleet: Fleet) -> None:
        self._metrics = metrics
        self._fleet = fleet

    def collect(self) -> Iterable[Metric]:
        """One family for each name. An error is an answer of 500 or more, or one that did not come to its end."""
        invocations = CounterMetricFamily("model_invocations", "Requests that ended", None, ("model_name",))
        errors = CounterMetricFamily("model_errors", "Requests that failed", None, ("model_name",))
        ended: dict[str, float] = defaultdict(float)
        failed: dict[str, float] = defaultdict(float)
        for family in self._metrics.requests.collect():
            for sample in family.samples:
                model = sample.labels["model"]
                ended[model] += sample.value
                if sample.labels["outcome"] not in ("complete", "client_gone") or sample.labels["status"] >= "500":
                    failed[model] += sample.value
        for model, count in ended.items():
            invocations.add_metric((model,), count)
            errors.add_metric((model,), failed[model])
        yield from (invocations, errors, self._concurrent())
        yield from _milliseconds(self._metrics.duration.collect(), "model_latency_milliseconds", "Time of an answer")
        yield from _milliseconds(self._metrics.ttft.collect(), "model_ttfb_milliseconds", "Time to the first byte")

    def _concurrent(self) -> Metric:
        concurrent = GaugeMetricFamily("model_concurrent_requests", "Requests under way", None, ("model_name",))
        under_way: dict[str, int] = defaultdict(int)
        for engine in self._fleet:
            under_way[engine.replica.base.id] += engine.load.ours.in_flight
        for model, count in under_way.items():
            concurrent.add_metric((model,), count)
        return concurrent


def _milliseconds(families: Iterable[Metric], name: str, text: str) -> Iterator[Metric]:
    """A histogram of seconds, by model only, in milliseconds."""
    metric = Metric(name, text, "histogram")
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    for family in families:
        for sample in family.samples:
            suffix = sample.name.rpartition("_")[2]
            bound = sample.labels.get("le", "")
            if bound not in ("", "+Inf"):
                bound = str(float(bound) * 1e3)
            scale = 1e3 if suffix == "sum" else 1.0
            sums[sample.labels["model"], suffix, bound] += sample.value * scale
    for (model, suffix, bound), value in sums.items():
        labels = {"model_name": model, **({"le": bound} if bound else {})}
        metric.add_sample(f"{name}_{suffix}", labels, value)
    yield metric
