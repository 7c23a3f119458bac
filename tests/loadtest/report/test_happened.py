"""What a log says came of its requests."""

from typing import Any

import pytest

from loadtest.replica.timing import PROFILES
from loadtest.report.happened import OTHERS, TENANTS, Happened
from loadtest.traces.trace import Answered, TraceRequest

PROFILE = PROFILES["llama-8b-l40s"]


def request(prompt: int, **answer: Any) -> TraceRequest:
    """One that was answered, or not where nothing is said of it."""
    given = {
        "tenant": "",
        "policy": "kv-aware",
        "cached": None,
        "predicted": None,
        "ttft": None,
        "predicted_ttft": None,
    }
    return TraceRequest(0.0, prompt, 1, (), answered=Answered(**{**given, **answer}) if answer else None)


def told(*requests: TraceRequest, price: float | None = None) -> dict[str, Any]:
    happened = Happened(PROFILE, 2)
    for one in requests:
        happened.add(one)
    return happened.told(price) or {}


def test_a_trace_without_answers_says_nothing() -> None:
    assert told(request(100), request(200)) == {}


def test_hits_and_first_tokens_stand_beside_what_was_predicted() -> None:
    found = told(
        request(1000, cached=512, predicted=512, ttft=0.1, predicted_ttft=0.11),
        request(1000, cached=0, predicted=256, ttft=0.3, predicted_ttft=0.2),
        request(1000, predicted=256),
        request(500, cached=128, policy="round-robin"),
    )
    assert found["requests"] == 4
    assert found["hit_ratio"] == pytest.approx(640 / 2500, abs=1e-4)
    compared = found["compared"]
    assert (compared["predicted_hit_ratio"], compared["hit_ratio"]) == (0.384, 0.256)
    assert compared["predictions"] == {"exact": 1, "over": 1, "under": 0}
    assert found["ttft_p50_ms"] == pytest.approx(100, rel=0.06)
    assert compared["predicted_ttft_p90_ms"] == pytest.approx(200, rel=0.06)
    assert found["policies"]["round-robin"] == {
        "requests": 1, "hit_ratio": 0.256, "ttft_p50_ms": None, "ttft_p90_ms": None, "ttft_p99_ms": None,
    }  # fmt: skip


def test_a_tenant_has_saved_the_prefill_of_its_cached_tokens_in_tokens_time_and_money() -> None:
    found = told(
        request(1000, tenant="a", cached=800), request(1000, tenant="b", cached=0), request(400, tenant="a", cached=80),
        price=3.0,
    )  # fmt: skip
    assert list(found["tenants"]) == ["a", "b"]  # who saved most comes first
    saved = found["tenants"]["a"]
    assert (saved["requests"], saved["prompt_tokens"], saved["cached_tokens"]) == (2, 1400, 880)
    ms = sum(PROFILE.prefill_ms(whole, 0) - PROFILE.prefill_ms(whole - cached, cached)
             for whole, cached in ((1000, 800), (400, 80)))  # fmt: skip
    assert saved["saved_ms"] == pytest.approx(ms, abs=0.1)
    hours = 2 * ms / 3_600_000
    assert saved["saved_gpu_hours"] == pytest.approx(hours, abs=1e-4)
    assert saved["saved"] == pytest.approx(3 * hours, abs=1e-4)
    assert found["tenants"]["b"]["saved_ms"] == 0


def test_of_many_tenants_the_last_are_told_together() -> None:
    found = told(*(request(100, tenant=str(number), cached=50) for number in range(TENANTS + 5)))
    assert len(found["tenants"]) == TENANTS + 1
    assert found["tenants"][OTHERS]["requests"] == 5
