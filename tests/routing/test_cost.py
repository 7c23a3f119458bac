import pytest

from routing.cost import MEANWHILE, NOTHING_AT_STAKE, PROFILES, Prediction, Profile, Stake, predict, profile_from_ms
from routing.fleet import Lease
from routing.load import EngineLoad

H100 = PROFILES["qwen3-32b-h100"]


def prediction(
    load: EngineLoad | None = None, *, profile: Profile = H100, l0: int = 0, l1: int | None = None, prompt: int = 1000,
    stake: Stake = NOTHING_AT_STAKE, capacity: int = 0, now: float = 0.0,
) -> Prediction:  # fmt: skip
    return predict(
        profile, load or EngineLoad(), l0=l0, l1=l0 if l1 is None else l1, prompt=prompt, waiting_prompt=1000.0,
        now=now, stake=stake, capacity=capacity,
    )  # fmt: skip


def test_an_idle_engine_takes_as_long_as_the_profile_says() -> None:
    expected = (3.98 + 0.04996 * 8192 + 1.567e-6 * 8192 * 8192 / 2) * 1e-3
    assert prediction(prompt=8192).ttft == pytest.approx(expected)
    assert 0.40 < prediction(prompt=8192).ttft < 0.51


def test_what_is_cached_need_not_be_computed_but_is_attended_to() -> None:
    expected = (3.98 + 0.04996 * 192 + 1.567e-6 * 192 * (8000 + 96)) * 1e-3
    assert prediction(l0=8000, prompt=8192).ttft == pytest.approx(expected)


@pytest.mark.parametrize("tokens", [0, 160, 800, 992])
def test_more_cached_tokens_never_cost_more(tokens: int) -> None:
    assert prediction(l0=tokens + 8).cost < prediction(l0=tokens).cost
    assert prediction(l0=tokens, l1=tokens + 8).prefill < prediction(l0=tokens).prefill


def test_host_memory_costs_less_than_computing_and_more_than_the_gpu() -> None:
    assert prediction(l0=960).ttft < prediction(l0=0, l1=960).ttft < prediction().ttft


@pytest.mark.parametrize(
    ("why", "busy"),
    [
        ("our own prompts in front", EngineLoad(in_flight=1, pending=1, pending_tokens=500)),
        ("others waiting", EngineLoad(others_waiting=1)),
        ("requests that decode", EngineLoad(in_flight=8, context_tokens=8000)),
    ],
)
def test_a_busy_engine_costs_more(why: str, busy: EngineLoad) -> None:
    assert prediction(busy).ttft > prediction().ttft, why


def test_prompts_in_front_share_an_engine_step_with_this_one() -> None:
    front = EngineLoad(in_flight=1, pending=1, pending_tokens=500)
    alone, behind = prediction(prompt=500).ttft, prediction(front, l0=496, prompt=500).ttft
    assert behind - alone < 0.001


def test_what_others_have_at_stake_is_no_part_of_the_wait_but_of_the_cost() -> None:
    crowded, roomy = prediction(stake=(0.02, 0.01, 0.5)), prediction()
    assert crowded.ttft == roomy.ttft
    assert crowded.cost == pytest.approx(roomy.cost + 0.03 + 0.5 * roomy.prefill)


def crowded(prompts: int, residence: float = 20.0) -> EngineLoad:
    """An engine that runs so many prompts of 1,000 tokens."""
    return EngineLoad(in_flight=prompts, context_tokens=1000 * prompts, residence=residence)


def test_a_prompt_that_does_not_fit_beside_running_ones_waits_until_enough_of_them_have_ended() -> None:
    assert prediction(crowded(9), prompt=1000, capacity=10_000).queue == 0.0
    assert prediction(crowded(9), prompt=1500, capacity=10_000).queue == pytest.approx(20.0 * 500 / 10_000)
    assert prediction(crowded(9), prompt=1500, capacity=0).queue == 0.0, "nobody knows what fits"
    assert prediction(crowded(9, residence=0.0), prompt=1500, capacity=10_000).queue == 0.0, "nor how long they stay"


def test_prompts_in_front_take_their_part_of_the_memory_first() -> None:
    load = crowded(9)
    Lease(load, prompt_tokens=2000, new_tokens=2000, now=0.0)
    assert prediction(load, prompt=1000, capacity=10_000).queue == pytest.approx(20.0 * 2000 / 10_000)


def test_of_the_waits_for_memory_and_for_prompts_in_front_the_longer_one_counts() -> None:
    load = crowded(0, residence=0.001)
    Lease(load, prompt_tokens=20_000, new_tokens=20_000, now=0.0)
    assert prediction(load, capacity=10_000) == prediction(load)


def test_who_waits_for_memory_keeps_others_waiting_for_what_it_takes() -> None:
    stake = (0.0, 0.0, 2.0)
    roomy, full = (prediction(load, stake=stake, capacity=10_000) for load in (crowded(5), crowded(15)))
    assert roomy.work == pytest.approx(2.0 * roomy.prefill)
    assert full.work == pytest.approx(2.0 * (full.prefill + MEANWHILE * 20.0 * 1000 / 10_000))


def test_a_profile_in_milliseconds_is_kept_in_seconds() -> None:
    profile = profile_from_ms(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert profile.prefill(new=1, cached=0) == pytest.approx(4.5e-3)
    assert profile.decode(running=2, context=10) == pytest.approx(130e-3)


def in_front(load: EngineLoad, now: float) -> float:
    """What of a short prompt's wait is for those in front."""
    return predict(H100, load, 0, 0, 16, 0.0, now).queue


@pytest.mark.parametrize("prompts", [1, 2, 5])
def test_prompts_in_front_take_as_long_as_their_prefill_and_what_the_first_has_had_is_done(prompts: int) -> None:
    load, whole = EngineLoad(), H100.prefill(20_000, 40_000)
    leases = [Lease(load, prompt_tokens=60_000, new_tokens=20_000, now=10.0) for _ in range(prompts)]
    for had in (0.0, 0.3, 0.9):
        assert in_front(load, 10.0 + had * whole) == pytest.approx((prompts - had) * whole, rel=0.02)
    assert in_front(load, 1000.0) == pytest.approx((prompts - 1) * whole, rel=0.02, abs=0.01), (
        "a late one is nearly done"
    )
    leases[0].first_token(1000.0)
    assert in_front(load, 1000.0) == pytest.approx((prompts - 1) * whole, rel=0.02, abs=0.01)


@pytest.mark.parametrize("prompts", [1, 2, 5])
def test_the_first_of_prompts_that_other_gateways_sent_is_half_done(prompts: int) -> None:
    load, ours = EngineLoad(), EngineLoad()
    for _ in range(prompts):
        Lease(ours, prompt_tokens=60_000, new_tokens=20_000, now=0.0)
    load.hear(ours.ours)
    assert in_front(load, 5.0) == pytest.approx((prompts - 0.5) * H100.prefill(20_000, 40_000), rel=0.02)


@pytest.mark.parametrize("prompt", [640, 8192])
@pytest.mark.parametrize("cached", [0, 16, 640])
def test_what_cached_tokens_spare_is_the_difference_of_the_prefills(prompt: int, cached: int) -> None:
    without, behind = H100.prefill(prompt, 0), H100.prefill(prompt - cached, cached)
    assert H100.spared(cached) == pytest.approx(without - behind)
