from random import Random

from endings import candidate, decision
from prometheus_client import CollectorRegistry

from gateway.shadow import Shadow
from routing.policies import POLICIES


def test_what_the_other_policy_would_have_done_is_counted_and_not_done() -> None:
    registry = CollectorRegistry()
    shadow = Shadow(POLICIES["kv-aware"](Random(0)), registry)
    served = decision(candidate("a", l0=0, prefill=0.5), candidate("b", l0=64, prefill=0.1))
    shadow.judge("m", served, None)
    shadow.judge("m", decision(candidate("b", l0=64, prefill=0.1)), None)

    def value(name: str, **labels: str) -> float | None:
        common = {"model": "m", "policy": "kv-aware", "shadow": "kv-aware"}
        return registry.get_sample_value(f"kvgate_shadow_{name}_total", common | labels)

    assert (value("decisions", choice="same"), value("decisions", choice="other")) == (1, 1)
    assert (value("cached_tokens", by="served"), value("cached_tokens", by="shadow")) == (64, 128)
    assert value("predicted_ttft_seconds", by="served") == 0.6
    assert value("predicted_ttft_seconds", by="shadow") == 0.2
