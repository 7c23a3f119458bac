"""What a fleet is scaled by: the predicted wait at each engine, and the share of them that is saturated."""

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.config.saturation import Saturation
from routing.fleet import Engine, Fleet


class SignalsCollector(Collector):
    """Reads the fleet when somebody scrapes.

    queue: seconds that one more prompt would wait at an engine, at a time. now: that time, by a monotonic clock.
    """

    def __init__(
        self,
        fleet: Fleet,
        queue: Callable[[Engine, float], float],
        saturation: Saturation,
        now: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._queue = queue
        self._saturation = saturation
        self._now = now

    def collect(self) -> Iterable[Metric]:
        """Waits by engine, and the share by base model."""
        waits = GaugeMetricFamily(
            "kvgate_predicted_queue_milliseconds",
            "Predicted wait of one more prompt until its own prefill begins",
            None,
            ("replica", "engine"),
        )
        share = GaugeMetricFamily(
            "kvgate_saturated_share", "Share of a model's engines that can take no more", None, ("model",)
        )
        saturated: dict[str, list[bool]] = {}
        now = self._now()
        for engine in self._fleet:
            wait = self._queue(engine, now) * 1e3
            waits.add_metric((engine.id.replica, str(engine.id.rank)), wait)
            full = wait > self._saturation.queue_ms or engine.load.report.kv_usage > self._saturation.kv_usage
            saturated.setdefault(engine.replica.base.id, []).append(full)
        for model, engines in saturated.items():
            share.add_metric((model,), sum(engines) / len(engines))
        return waits, share
