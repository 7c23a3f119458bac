from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.cost import PROFILES
from routing.fit import SpeedFit, scaled
from routing.types import EngineId, ReplicaId

PROFILE = PROFILES["qwen3-32b-h100"]
A, B = EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("b:1"), 0)


def test_nothing_seen_is_the_profile() -> None:
    fit = SpeedFit(PROFILE)
    assert (fit.profile(A), fit.factor(A), fit.errors(A)) == (PROFILE, 1.0, (0.0, 0.0))


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 8.0])
def test_it_finds_how_fast_an_engine_is(factor: float) -> None:
    fit, random = SpeedFit(PROFILE), Random(0)
    for _ in range(200):
        by_profile = random.uniform(0.05, 2.0)
        fit.observe(A, by_profile, by_profile * factor * random.uniform(0.8, 1.25))
    assert fit.factor(A) == pytest.approx(factor, rel=0.15)
    assert fit.profile(A).prefill(1000, 0) == pytest.approx(PROFILE.prefill(1000, 0) * fit.factor(A))
    assert fit.factor(B) == pytest.approx(factor, rel=0.15), "the others' is the best guess for one unseen"


def test_a_stall_moves_it_little() -> None:
    fit = SpeedFit(PROFILE)
    for _ in range(100):
        fit.observe(A, 0.1, 0.2)
    before = fit.factor(A)
    fit.observe(A, 0.1, 300.0)
    assert fit.factor(A) < before * 1.06


def test_it_forgets() -> None:
    fit = SpeedFit(PROFILE)
    for factor in (4.0, 0.5):
        for _ in range(200):
            fit.observe(A, 0.1, 0.1 * factor)
    assert fit.factor(A) == pytest.approx(0.5, rel=0.1)


@given(st.lists(st.floats(1e-3, 1e3), max_size=60))
def test_it_stays_within_its_bounds_whatever_it_sees(ratios: list[float]) -> None:
    fit = SpeedFit(PROFILE)
    for ratio in ratios:
        fit.observe(A, 1.0, ratio)
    assert 1 / 16 <= fit.factor(A) <= 16 * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [1.0, 1.1, 3.0])
def test_it_errs_no_more_than_the_profile_alone(factor: float, seed: int) -> None:
    fit, random = SpeedFit(PROFILE), Random(seed)
    for _ in range(300):
        fit.observe(A, 0.1, 0.1 * factor * random.lognormvariate(0, 0.3))
        by_fit, by_profile = fit.errors(A)
        assert by_fit <= by_profile * 1.1 + 0.01


def test_equal_engines_are_not_told_apart_by_chance() -> None:
    fit, random = SpeedFit(PROFILE), Random(1)
    engines = [EngineId(ReplicaId(f"r{number}:1"), 0) for number in range(4)]
    for _ in range(400):
        fit.observe(random.choice(engines), 0.1, 0.3 * random.lognormvariate(0, 0.2))
        assert len({fit.factor(engine) for engine in engines}) == 1


def test_one_that_is_half_as_fast_as_the_others_is() -> None:
    fit, random = SpeedFit(PROFILE), Random(1)
    engines = [EngineId(ReplicaId(f"r{number}:1"), 0) for number in range(4)]
    for _ in range(400):
        engine = random.choice(engines)
        slow = 2.0 if engine == engines[0] else 1.0
        fit.observe(engine, 0.1, 0.1 * slow * random.lognormvariate(0, 0.1))
    assert fit.factor(engines[0]) == pytest.approx(2.0, rel=0.2)
    assert fit.factor(engines[1]) == pytest.approx(1.0, rel=0.2)


def test_times_that_cannot_be_are_passed_over_and_an_engine_that_left_is_forgotten() -> None:
    fit = SpeedFit(PROFILE)
    for _ in range(20):
        fit.observe(A, 0.1, 0.3)
        fit.observe(A, 0.0, 0.3)
        fit.observe(A, 0.1, 0.0)
    assert fit.factor(A) > 2
    fit.forget(A.replica)
    assert fit.errors(A) == (0.0, 0.0)


def test_loading_from_host_memory_is_another_matter() -> None:
    assert scaled(PROFILE, 3.0).load_l1(1000) == PROFILE.load_l1(1000)
