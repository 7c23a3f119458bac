from collections.abc import Sequence
from random import Random

import pytest

from routing.cost import PROFILES, predict
from routing.decision import Candidate
from routing.load import EngineLoad
from routing.policies import POLICIES
from routing.types import EngineId, ReplicaId


def candidate(name: str, *, l0: int = 0, l1: int = 0, in_flight: int = 0, pending: int = 0) -> Candidate:
    load = EngineLoad(in_flight=in_flight, pending=int(pending > 0), pending_tokens=pending)
    l1 = max(l0, l1)
    profile = PROFILES["qwen3-32b-h100"]
    prediction = predict(profile, load, l0=l0, l1=l1, prompt=2000, waiting_prompt=0.0, now=0.0)
    return Candidate(EngineId(ReplicaId(name), 0), load, l0, l1, 2000, prediction)


def choose(policy: str, candidates: Sequence[Candidate]) -> str:
    return POLICIES[policy](Random(0)).choose(candidates).candidate.engine.replica


@pytest.mark.parametrize(
    ("why", "a", "b", "chosen"),
    [
        ("cache beats none", candidate("a"), candidate("b", l0=1600), "b"),
        ("gpu beats host memory", candidate("a", l1=1600), candidate("b", l0=1600), "b"),
        ("host memory beats none", candidate("a"), candidate("b", l1=1600), "b"),
        ("a long queue beats a short prefix", candidate("a"), candidate("b", l0=160, pending=4000), "a"),
        ("a long prefix beats a short queue", candidate("a"), candidate("b", l0=1600, pending=500), "b"),
        ("among equals the less busy", candidate("a", in_flight=1), candidate("b"), "b"),
    ],
)
def test_kv_aware(why: str, a: Candidate, b: Candidate, chosen: str) -> None:
    assert choose("kv-aware", [a, b]) == chosen, why


@pytest.mark.parametrize(
    ("why", "a", "b", "chosen"),
    [
        ("the longer prefix", candidate("a", l0=160), candidate("b", l0=320), "b"),
        ("a few requests more are borne", candidate("a"), candidate("b", l0=160, in_flight=4), "b"),
        ("far too many are not", candidate("a"), candidate("b", l0=160, in_flight=40), "a"),
        ("an unknown prefix goes to the less busy", candidate("a", in_flight=1), candidate("b"), "b"),
    ],
)
def test_prefix_aware(why: str, a: Candidate, b: Candidate, chosen: str) -> None:
    assert choose("prefix-aware", [a, b]) == chosen, why


def test_least_loaded_looks_at_requests_only() -> None:
    assert choose("least-loaded", [candidate("a", l0=1600, in_flight=1), candidate("b")]) == "b"


def test_round_robin_takes_each_in_turn() -> None:
    policy = POLICIES["round-robin"](Random(0))
    fleet = [candidate(name) for name in "abc"]
    assert [policy.choose(fleet).candidate.engine.replica for _ in range(7)] == list("abcabca")
