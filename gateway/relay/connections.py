"""What clients' connections may take, and what became of those that took more."""

import logging
from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

logger = logging.getLogger(__name__)


class Connections(Collector):
    """Bounds on clients' connections, and the count of them. Belongs to the event loop.

    head: seconds from a request's first byte to the end of its head, and from a connection's start to that byte.
    body: seconds in which a body must end, or bring `BODY_STEP` more. answer: seconds in which a client that is slower
    than its answer must have taken what waits for it. per_address: connections at once; None for any.
    """

    HEAD_BYTES = 65_536
    """limit of a request's line and headers, and of what comes between two parts of its body"""
    BODY_BYTES = 65_536
    """of a body that the application has not taken yet; above it the socket is not read"""
    BODY_STEP = 16_384
    LINGER = 5.0
    """longest time in seconds that the rest of a request is dropped before its connection is closed"""

    def __init__(
        self, head: float = 30.0, body: float = 30.0, answer: float = 300.0, per_address: int | None = None
    ) -> None:
        self.head = head
        self.body = body
        self.answer = answer
        self._per_address = per_address
        self._open: Counter[bytes] = Counter()
        self._refused: Counter[str] = Counter()

    def opened(self, address: bytes) -> bool:
        """A connection was made. Returns whether it may stay; if not it does not count as open."""
        if self._per_address is not None and self._open[address] >= self._per_address:
            return False
        self._open[address] += 1
        return True

    def closed(self, address: bytes) -> None:
        """One that might stay has ended."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def refused(self, reason: str) -> None:
        """A connection was ended for what came on it, or did not."""
        self._refused[reason] += 1
        logger.info("a client's connection was ended: %s", reason)

    def collect(self) -> Iterable[Metric]:
        """As metrics."""
        yield GaugeMetricFamily("kvgate_connections", "Clients' connections", value=self._open.total())
        refused = CounterMetricFamily(
            "kvgate_connections_refused",
            "Connections ended: malformed, head_size, head_time, body_time, answer_time, per_address",
            labels=("reason",),
        )
        for reason, count in self._refused.items():
            refused.add_metric((reason,), count)
        yield refused
