"""The metrics that are counted as things happen: names, labels and what they mean. For the others see `state.py`."""

from typing import TypeVar

from prometheus_client import CollectorRegistry, Gauge

from gateway.tally import Counter, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_MILLIS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)
_BLOCKS = (-256, -64, -16, -4, -1, 0, 1, 4, 16, 64, 256)


Kind = TypeVar("Kind", Counter, Gauge, Histogram)


class Metrics:
    """The metrics of one gateway process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        self._by_replica: list[Counter | Gauge | Histogram] = []

        def keep(metric: Kind, labels: tuple[str, ...]) -> Kind:
            if "replica" in labels:
                self._by_replica.append(metric)
            return metric

        def counter(name: str, text: str, *labels: str) -> Counter:
            return keep(Counter(f"kvgate_{name}", text, labels, registry), labels)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return keep(Gauge(f"kvgate_{name}", text, labels, registry=registry), labels)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return keep(Histogram(f"kvgate_{name}", text, buckets, labels, registry), labels)

        self.requests = counter(
            "requests", "Requests that ended, by outcome", "model", "policy", "replica", "outcome", "status"
        )
        self.ttft = histogram(
            "ttft_seconds", "Arrival to the answer's first byte", _SECONDS, "model", "policy", "replica"
        )
        self.duration = histogram(
            "request_duration_seconds", "Arrival to the end of the answer", _SECONDS, "model", "policy", "replica"
        )
        self.itl = histogram(
            "itl_seconds", "Between two tokens of a stream, on average", _SECONDS, "model", "policy", "replica"
        )
        self.overhead = histogram(
            "overhead_seconds",
            "Arrival to asking for a connection, but for waiting: for the body, in the queue, for who did not take it",
            _MILLIS,
            "model",
            "policy",
            "replica",
        )
        self.decision = histogram(
            "decision_seconds",
            "Arrival to the choice of a replica, without waiting for the body or in the queue",
            _MILLIS,
            "policy",
        )
        self.retries = counter(
            "retries", "Requests sent again because nothing had been done, by who got them then", "replica"
        )
        self.retries_refused = counter(
            "retries_refused",
            "Requests not sent again: attempts, budget, nobody else is there, or an upload that has begun",
            "reason",
        )
        self.ejections = counter(
            "ejections", "Times that a replica was left alone: connection or application faults", "replica", "fault"
        )
        self.admission_refused = counter(
            "admission_refused",
            "Requests not let in: key, model, salt, requests, tokens, queue_full, queue_timeout",
            "tenant",
            "reason",
        )
        self.queue_time = histogram("queue_seconds", "In the gateway's own queue", _SECONDS)
        self.shared_limit_faults = counter(
            "shared_limit_faults", "Times that limits began to be counted by this gateway alone: Redis did not answer"
        )
        self.prompt_tokens = counter("prompt_tokens", "Prompt tokens as the engine counted them", "model", "policy")
        self.cached_tokens = counter(
            "cached_tokens", "Prompt tokens that the engine did not prefill", "model", "policy"
        )
        self.uncached_tokens = counter("uncached_tokens", "Prompt tokens that the engine prefilled", "model", "policy")
        self.tenant_prompt_tokens = counter(
            "tenant_prompt_tokens", "Prompt tokens of answers whose engine told what was cached", "tenant"
        )
        self.tenant_cached_tokens = counter("tenant_cached_tokens", "Of them, those that were not prefilled", "tenant")
        self.tenant_saved_seconds = counter(
            "tenant_saved_seconds", "Engine time that their prefill would have taken, by the profile", "tenant"
        )
        self.prediction = counter(
            "predictions",
            "Answers whose cached tokens were compared with the prediction: exact, over or under",
            "replica",
            "policy",
            "outcome",
        )
        self.prediction_error = histogram(
            "prediction_error_blocks", "Predicted minus reported cached blocks", _BLOCKS, "replica", "policy"
        )
        self.audit = counter(
            "index_audit",
            "Answers compared with what the index had: confirmed, evicted meanwhile, phantom (unexplained)",
            "replica",
            "engine",
            "verdict",
        )
        self.index_rebuilds = counter("index_rebuilds", "Engines learned anew after an audit", "replica", "engine")
        self.miscounted = counter(
            "miscounted_prompts", "Answers whose prompt had another number of tokens than the gateway found", "model"
        )
        self.parity = gauge(
            "parity", "1 for how a fixed prompt compared with the replica's tokens", "replica", "shape", "outcome"
        )
        self.unscored = counter(
            "unscored", "Requests routed without a prefix, by reason", "model", "endpoint", "reason"
        )
        self.replica_up = gauge("replica_up", "1 while the replica is in the fleet", "replica")
        self.probe_failures = counter("probe_failures", "Probes that failed", "replica")
        self.block_size_mismatch = counter(
            "block_size_mismatches", "Events disagreed with the block size that the replica states", "replica"
        )
        self.warm_up = counter(
            "warm_up", "Beginnings that a new replica was to compute, by outcome", "replica", "outcome"
        )
        self.config_reloads = counter("config_reloads", "Configuration files read again, by outcome", "outcome")

    def forget(self, replica: str) -> None:
        """End the series of a replica that is gone, or those of all pods there ever were would be scraped for ever."""
        for metric in self._by_replica:
            metric.remove_by_labels({"replica": replica})
