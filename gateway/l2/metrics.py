"""What is counted of shared storage."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gateway.l2.breaker import Off

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 1.0)


class L2Metrics:
    """In a registry that is given."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"kvgate_l2_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"kvgate_l2_{name}", text, labels, registry=registry)

        self.look_ups = counter(
            "look_ups", "Look-ups in shared storage: answered, late, failed, off (not asked)", "model", "outcome"
        )
        self.seconds = Histogram(
            "kvgate_l2_look_up_seconds", "What a look-up added to its request", (), buckets=_SECONDS, registry=registry
        )
        self.hints = counter(
            "hints",
            "Answers to requests that were promised a load: delivered, or false (less came)",
            "model",
            "outcome",
        )
        self.tokens = counter("promised_tokens", "Prompt tokens that were expected to be loaded", "model")
        self.off = gauge("off", "1 while shared storage does not count for this reason", "reason")
        for reason in Off:
            self.off.labels(reason.value).set(0)
        self.fullness = gauge("used_ratio", "How full it is, 0 to 1")
        self.mismatch = gauge("mismatch", "1 while no stored file could have been made with the settings", "model")
        self.prefetches = counter("prefetches", "Prefetches asked of LMCache's servers, by outcome", "outcome")
        self.load_scale = gauge("load_scale", "Load times as observed, over those of the settings", "model")
        self.false_ratio = gauge("false_hint_ratio", "Share of the latest promised loads that did not come")
