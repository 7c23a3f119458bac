"""Predicted against observed times to first token: what engines show of their speed, and the error, as metrics."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from gateway.relay.record import Ended
from gateway.tally import Histogram
from routing.fit import SpeedFit, tells_speed
from routing.fleet import Fleet

_ERRORS = (-10.0, -2.5, -1.0, -0.25, -0.1, -0.025, -0.01, 0.0, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0)


class SpeedWatch(Collector):
    """Feeds the fit with each stream that was answered, and shows how good it is."""

    def __init__(self, fit: SpeedFit, fleet: Fleet, registry: CollectorRegistry) -> None:
        self._fit = fit
        self._fleet = fleet
        self._error = Histogram(
            "kvgate_ttft_prediction_error_seconds", "Predicted minus observed time to first token of streams", _ERRORS,
            ("policy",), registry,
        )  # fmt: skip
        registry.register(self)

    def ended(self, ended: Ended) -> None:
        """A request is over. Of answers that are no streams the first token can't be told."""
        record = ended.record
        decision, usage = record.decision, record.usage
        if record.ttft is None or not record.done or not record.single or decision.cached_tokens is None:
            return
        predicted = decision.prediction.ttft
        self._error.labels(decision.policy).observe(predicted - record.ttft)
        if usage is not None and usage.cached_tokens is not None and tells_speed(decision, usage.cached_tokens):
            self._fit.observe(decision.engine, predicted / decision.factor, record.ttft)

    def collect(self) -> Iterable[Metric]:
        """Factor and errors of each engine."""
        labels = ("replica", "engine")
        factor = GaugeMetricFamily(
            "kvgate_engine_time_factor", "Its times to first token by the profile's, as fitted; 1 while that is better",
            None, labels,
        )  # fmt: skip
        error = GaugeMetricFamily(
            "kvgate_engine_time_error", "Mean relative error of predicted times to first token of late", None,
            (*labels, "by"),
        )  # fmt: skip
        for engine in self._fleet:
            names = (engine.id.replica, str(engine.id.rank))
            fitted, profile = self._fit.errors(engine.id)
            factor.add_metric(names, self._fit.factor(engine.id))
            error.add_metric((*names, "fit"), fitted)
            error.add_metric((*names, "profile"), profile)
        return (factor, error)
