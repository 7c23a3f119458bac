"""What the caches save each tenant."""

import pytest
from endings import ended
from prometheus_client import CollectorRegistry

from gateway.metrics import Metrics
from gateway.relay.usage import Usage
from gateway.savings import Savings
from routing.cost import PROFILES

PROFILE = PROFILES["llama-8b-l40s"]


def of(registry: CollectorRegistry, name: str, tenant: str) -> float | None:
    return registry.get_sample_value(f"kvgate_tenant_{name}_total", {"tenant": tenant})


def test_each_tenant_is_told_its_own_tokens_and_engine_time() -> None:
    metrics = Metrics()
    savings = Savings(metrics, PROFILE)
    for tenant, cached in (("red", 800), ("red", 0), ("blue", 512), ("blue", None)):
        savings.ended(ended(tenant=tenant, usage=Usage(1000, 5, cached)))
    registry = metrics.registry
    assert (of(registry, "prompt_tokens", "red"), of(registry, "cached_tokens", "red")) == (2000, 800)
    assert (of(registry, "prompt_tokens", "blue"), of(registry, "cached_tokens", "blue")) == (1000, 512)
    saved = PROFILE.prefill(1000, 0) - PROFILE.prefill(200, 800)
    assert of(registry, "saved_seconds", "red") == pytest.approx(saved)
