"""Counters and histograms for what happens with every request.

prometheus_client's own take a lock, check their labels and walk all buckets for each value: with nine values a request
that was a tenth of what relaying cost. These belong to the event loop, and are put into its form when somebody scrapes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class Count:
    """What has been counted under one set of labels."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        """Add `amount`, which is not negative."""
        self.value += amount


class Distribution:
    """The values that were observed under one set of labels. bounds: of its buckets, each inclusive, ascending."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """by bucket, the last for what is above all bounds"""
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Take in one value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


class Counter(Collector):
    """`labels` gives the count of a set of label values, which is to be kept where it is used often."""

    def __init__(self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        """name: without `_total`."""
        self._name, self._text, self._labels = name, text, labels
        self._counts: dict[tuple[str, ...], Count] = {}
        registry.register(self)

    def labels(self, *values: str) -> Count:
        """The count of these label values, in the order of the labels."""
        count = self._counts.get(values)
        if count is None:
            count = self._counts[_checked(values, self._labels)] = Count()
        return count

    def remove_by_labels(self, labels: Mapping[str, str]) -> None:
        """End all series with these values. A count that somebody kept is not seen any more."""
        self._counts = {values: one for values, one in self._counts.items() if not _has(values, self._labels, labels)}

    def describe(self) -> Iterable[Metric]:
        """Its name, so that it can be asked for alone, and no other can have it."""
        yield CounterMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterable[Metric]:
        """As Prometheus takes it."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for values, count in self._counts.items():
            family.add_metric(values, count.value)
        yield family


class Histogram(Collector):
    """`labels` gives the distribution of a set of label values, which is to be kept where it is used often."""

    def __init__(
        self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str], registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._bounds, self._labels = name, text, bounds, labels
        self._distributions: dict[tuple[str, ...], Distribution] = {}
        registry.register(self)

    def labels(self, *values: str) -> Distribution:
        """The distribution of these label values, in the order of the labels."""
        distribution = self._distributions.get(values)
        if distribution is None:
            distribution = self._distributions[_checked(values, self._labels)] = Distribution(self._bounds)
        return distribution

    def remove_by_labels(self, labels: Mapping[str, str]) -> None:
        """End all series with these values. A distribution that somebody kept is not seen any more."""
        self._distributions = {
            values: one for values, one in self._distributions.items() if not _has(values, self._labels, labels)
        }

    def collect(self) -> Iterable[Metric]:
        """As Prometheus takes it: each bucket with all below it."""
        metric = Metric(self._name, self._text, "histogram")
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for values, distribution in self._distributions.items():
            labels = dict(zip(self._labels, values, strict=True))
            for bound, below in zip(bounds, accumulate(distribution.counts), strict=True):
                metric.add_sample(f"{self._name}_bucket", {**labels, "le": bound}, below)
            metric.add_sample(f"{self._name}_count", labels, sum(distribution.counts))
            if self._bounds[0] >= 0:  # Prometheus takes a sum for a counter, so it must not go down
                metric.add_sample(f"{self._name}_sum", labels, distribution.sum)
        yield metric


def _has(values: tuple[str, ...], labels: Sequence[str], wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= dict(zip(labels, values, strict=True)).items()


def _checked(values: tuple[str, ...], labels: Sequence[str]) -> tuple[str, ...]:
    if len(values) != len(labels):
        raise ValueError(f"{len(labels)} labels are {', '.join(labels)}, not {values}")
    return values
