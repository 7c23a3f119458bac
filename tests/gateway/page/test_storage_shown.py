"""What the page says of shared storage."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from gateway.config.l2 import L2, SharedModel
from gateway.l2.metrics import L2Metrics
from gateway.page.storage import break_even_tokens, shown
from routing.cost import PROFILES

L40S = PROFILES["llama-8b-l40s"]
"""70.6 µs a token"""


def test_a_load_pays_from_where_its_fixed_part_is_won_back() -> None:
    model = SharedModel(python_hash_seed=0, kv_bytes_per_token=57_344, load_base=0.005)
    tokens = break_even_tokens(model, L40S)
    assert tokens is not None
    assert abs(tokens * (70.61e-6 - 57_344 / 1.84e9) - 0.005) < 1e-4


def test_a_load_that_is_slower_than_the_prefill_never_pays() -> None:
    assert break_even_tokens(SharedModel(python_hash_seed=0, kv_bytes_per_token=262_144), L40S) is None
    assert break_even_tokens(SharedModel(python_hash_seed=0), L40S) is None


def test_without_shared_storage_it_says_which_models_it_would_pay_for() -> None:
    told = shown(None, [], L40S, CollectorRegistry())
    assert "less than 130 kB of KV cache a token" in str(told["verdict"])
    assert told["health"] == {}


def test_with_shared_storage_its_faults_come_first_and_its_figures_follow() -> None:
    registry = CollectorRegistry()
    metrics = L2Metrics(registry)
    metrics.hints.labels("m", "false").inc(3)
    settings = L2(path=Path("/mnt"), models={"m": SharedModel(python_hash_seed=0, kv_bytes_per_token=57_344)})
    told = shown(settings, ["shared storage does not count: it hangs"], L40S, registry)
    assert str(told["verdict"]).startswith("shared storage does not count: it hangs; m: a load pays from ")
    health = told["health"]
    assert isinstance(health, dict)
    assert health["hints m, false"] == 3
