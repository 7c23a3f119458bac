from dataclasses import replace

import pytest

from loadtest.replica.timing import PROFILES
from loadtest.report.forecast import Forecast
from loadtest.report.storage import Storage, break_even, load_per_token
from loadtest.traces.generate import BLOCK_SIZE, Mix, generate
from loadtest.traces.trace import TraceRequest
from routing.policies import POLICIES

QWEN = PROFILES["qwen3-32b-h100"]
TRACE = generate("multi-turn", Mix(requests=300, per_second=2), 1).requests


def test_an_idle_replica_takes_what_its_profile_says() -> None:
    request = TraceRequest(0.0, 8192, 10, range(16))
    (met,) = Forecast("kv-aware", 1, QWEN, 512).play([request], 0)
    assert met.ttft == pytest.approx(QWEN.prefill_ms(8192, 0) / 1000)
    assert (met.cached, met.loaded) == (0, 0)


def test_what_was_asked_before_is_found_and_the_last_token_is_computed() -> None:
    requests = [TraceRequest(at, 1024, 10, (1, 2)) for at in (0.0, 10.0)]
    first, second = Forecast("kv-aware", 3, QWEN, 512).play(requests, 0)
    assert (first.cached, second.cached) == (0, 512)


def test_prompts_wait_for_those_in_front() -> None:
    requests = [TraceRequest(0.0, 8192, 10, range(at, at + 16)) for at in (0, 100, 200)]
    waits = [met.ttft for met in Forecast("kv-aware", 1, QWEN, 512).play(requests, 0)]
    assert waits[0] < waits[1] < waits[2]
    assert waits[2] > 2.9 * waits[0]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_forecast(policy: str) -> None:
    met = Forecast(policy, 4, QWEN, BLOCK_SIZE).play(TRACE, 100)
    assert len(met) == 200
    assert all(one.ttft > 0 and one.cached < one.prompt for one in met)


def test_a_small_cache_evicts() -> None:
    small = replace(QWEN, l0_tokens=4096)
    found, lost = (
        sum(met.cached for met in Forecast("kv-aware", 2, profile, BLOCK_SIZE).play(TRACE, 0))
        for profile in (QWEN, small)
    )
    assert lost < found


def test_shared_storage_has_what_another_replica_computed() -> None:
    requests = [TraceRequest(float(at), 1024, 10, (1, 2)) for at in range(2)]
    storage = Storage(1000, load_per_token(QWEN))
    first, second = Forecast("round-robin", 2, QWEN, 512, storage).play(requests, 0)
    assert (first.loaded, second.loaded) == (0, 512)
    assert storage.found([3]) == 0  # type: ignore[list-item]


def test_slow_storage_never_pays_and_fast_storage_pays_early() -> None:
    for profile in PROFILES.values():
        early, late = break_even(profile, 20), break_even(profile, 1.84)
        assert early is not None
        assert early < 500
        assert late is None or early < late
    assert break_even(QWEN, 0.1) is None
