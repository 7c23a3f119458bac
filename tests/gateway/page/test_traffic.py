"""The last minutes in slices."""

import pytest
from endings import candidate, decision, ended

from gateway.page.traffic import SLICE, SLICES, Times, Traffic
from gateway.relay.usage import Usage
from routing.cost import PROFILES

PROFILE = PROFILES["qwen3-32b-h100"]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_what_ended_in_the_last_seconds_is_counted_and_older_is_not() -> None:
    clock = Clock()
    traffic = Traffic(PROFILE, clock)
    traffic.add(ended(status=500, how="engine_error"))
    clock.now += 30
    traffic.add(ended())
    traffic.add(ended(how="client_gone"))
    assert (traffic.last(60).requests, traffic.last(60).failed) == (3, 1)
    assert (traffic.last(10).requests, traffic.last(10).failed) == (2, 0)


def test_cached_tokens_save_the_prefill_that_they_would_have_taken() -> None:
    traffic = Traffic(PROFILE, Clock())
    chosen = decision(candidate("one", l0=800, prompt=1000))
    traffic.add(ended(chosen=chosen, usage=Usage(1000, 5, 800)))
    traffic.add(ended(chosen=chosen, usage=Usage(1000, 5, 816)))
    traffic.add(ended(chosen=chosen, usage=Usage(1000, 5, 0)))
    traffic.add(ended(chosen=chosen, usage=Usage(1000, 5, None)))
    shown = traffic.last(60).shown()
    assert (shown["prompt_tokens"], shown["cached_tokens"]) == (3000, 1616)
    assert shown["hit_ratio"] == pytest.approx(0.5387)
    assert shown["predictions"] == {"exact": 1, "under": 1, "over": 1}
    once = PROFILE.prefill(1000, 0) - PROFILE.prefill(200, 800)
    assert traffic.last(60).saved == pytest.approx(once * 2, rel=0.05)


def test_however_long_it_runs_only_so_many_slices_are_kept() -> None:
    clock = Clock()
    traffic = Traffic(PROFILE, clock)
    for _ in range(3 * SLICES):
        traffic.add(ended())
        clock.now += SLICE
    series = traffic.series()
    assert len(series) == SLICES
    assert [part.begun for part in series] == sorted(part.begun for part in series)


@pytest.mark.parametrize("seconds", [0.001, 0.02, 0.7, 9.0, 100.0])
def test_a_quantile_is_right_to_within_five_percent(seconds: float) -> None:
    times = Times()
    for _ in range(10):
        times.add(seconds)
    assert times.quantile(0.5) == pytest.approx(seconds, rel=0.05)


def test_quantiles_tell_the_few_from_the_many() -> None:
    times = Times()
    for seconds in [0.01] * 90 + [1.0] * 10:
        times.add(seconds)
    assert times.quantile(0.5) == pytest.approx(0.01, rel=0.05)
    assert times.quantile(0.95) == pytest.approx(1.0, rel=0.05)
    assert Times().quantile(0.5) is None
