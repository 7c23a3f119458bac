"""What holds for every policy."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.cost import PROFILES, predict
from routing.decision import Candidate
from routing.load import EngineLoad
from routing.policies import POLICIES, policy_named
from routing.policies.kv_aware import NOISE
from routing.types import EngineId, ReplicaId

PROFILE = PROFILES["llama-8b-h100"]


def candidate(
    name: str, *, l0: int = 0, l1: int | None = None, in_flight: int = 0, pending: int = 0, waiting: int = 0,
    prompt: int = 1000,
) -> Candidate:  # fmt: skip
    load = EngineLoad(in_flight + (pending > 0), int(pending > 0), pending, 100 * in_flight, others_waiting=waiting)
    l1 = l0 if l1 is None else max(l0, l1)
    prediction = predict(PROFILE, load, l0=l0, l1=l1, prompt=prompt, waiting_prompt=500.0, now=0.0)
    return Candidate(EngineId(ReplicaId(name), 0), load, l0, l1, prompt, prediction)


@st.composite
def candidates(draw: st.DrawFn) -> Sequence[Candidate]:
    return [
        candidate(
            f"r{number}:1",
            l0=draw(st.integers(0, 62)) * 16,
            l1=draw(st.integers(0, 62)) * 16,
            in_flight=draw(st.integers(0, 20)),
            pending=draw(st.integers(0, 4000)),
            waiting=draw(st.integers(0, 5)),
        )
        for number in range(draw(st.integers(1, 8)))
    ]


@pytest.mark.parametrize("name", POLICIES)
@given(candidates())
def test_it_chooses_one_of_the_candidates_and_says_why(name: str, given: Sequence[Candidate]) -> None:
    chosen, reason = POLICIES[name](Random(0)).choose(given)
    assert chosen in given
    assert reason


@pytest.mark.parametrize("name", POLICIES)
def test_equal_idle_candidates_all_get_their_share(name: str) -> None:
    policy = POLICIES[name](Random(0))
    fleet = [candidate(f"r{number}:1") for number in range(4)]
    chosen = [policy.choose(fleet).candidate.engine for _ in range(400)]
    assert all(chosen.count(each.engine) > 60 for each in fleet)


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_random_source_gives_the_same_choices(name: str) -> None:
    fleet = [candidate(f"r{number}:1") for number in range(4)]

    def choices() -> list[EngineId]:
        policy = POLICIES[name](Random(7))
        return [policy.choose(fleet).candidate.engine for _ in range(50)]

    assert choices() == choices()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("spell", [str.upper, lambda n: n.replace("-", "_"), lambda n: n.replace("-", "")])
def test_every_spelling_finds_it(name: str, spell: object) -> None:
    assert callable(spell)
    assert policy_named(spell(name)) is POLICIES[name]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="kv-aware, prefix-aware, round-robin"):
        policy_named("fastest")


@given(candidates())
def test_kv_aware_never_chooses_what_is_predicted_to_cost_more_than_the_noise(given: Sequence[Candidate]) -> None:
    chosen = POLICIES["kv-aware"](Random(0)).choose(given).candidate
    assert chosen.prediction.cost <= min(each.prediction.cost for each in given) + NOISE


@given(candidates())
def test_kv_aware_waits_longer_only_for_what_others_have_at_stake(given: Sequence[Candidate]) -> None:
    chosen = POLICIES["kv-aware"](Random(0)).choose(given).candidate.prediction
    for other in (each.prediction for each in given):
        at_stake = (other.cost - other.ttft) - (chosen.cost - chosen.ttft)
        assert chosen.ttft <= other.ttft + NOISE + at_stake + 1e-9


@given(
    st.integers(0, 62),
    st.integers(0, 62),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 9000),
    st.integers(0, 9000),
)
def test_costs_rise_with_load_and_fall_with_what_is_held(
    held: int, more: int, in_flight: int, others: int, pending: int, further: int
) -> None:
    one = candidate("a:1", l0=16 * held, in_flight=in_flight, pending=pending)
    assert candidate("a:1", l0=min(992, 16 * (held + more)), in_flight=in_flight, pending=pending).prediction.cost <= (
        one.prediction.cost + 1e-9
    )
    busier = candidate("a:1", l0=16 * held, in_flight=in_flight + others, pending=pending + further)
    assert busier.prediction.cost >= one.prediction.cost - 1e-9
