from collections import Counter
from random import Random

import pytest

from routing.cost import PROFILES, predict
from routing.decision import Candidate
from routing.load import EngineLoad
from routing.policies import POLICIES
from routing.policies.session import affinity
from routing.types import EngineId, ReplicaId

PROFILE = PROFILES["llama-8b-h100"]


def candidate(name: str, in_flight: int = 0) -> Candidate:
    load = EngineLoad(in_flight=in_flight)
    return Candidate(
        EngineId(ReplicaId(name), 0), load, 0, 0, 1000, predict(PROFILE, EngineLoad(), 0, 0, 1000, 0.0, 0.0)
    )


FLEET = [candidate(f"r{number}:1") for number in range(4)]


def chosen(session: str | None, fleet: list[Candidate], seed: int = 0, policy: str = "session") -> EngineId:
    return POLICIES[policy](Random(seed)).choose(fleet, session).candidate.engine


def test_a_session_has_one_place_whoever_asks_and_in_whatever_order() -> None:
    for session in map(str, range(50)):
        places = {chosen(session, fleet, seed) for seed in range(3) for fleet in (FLEET, FLEET[::-1])}
        assert len(places) == 1


def test_sessions_spread_over_the_fleet() -> None:
    places = Counter(chosen(f"session {number}", FLEET) for number in range(4000))
    assert max(places.values()) < 1.15 * 1000


def test_only_the_sessions_of_an_engine_that_left_move() -> None:
    for session in map(str, range(200)):
        before, after = chosen(session, FLEET), chosen(session, FLEET[1:])
        assert before in (after, FLEET[0].engine)


def test_a_session_goes_to_its_next_place_while_its_own_has_far_more_to_do() -> None:
    ranked = sorted(FLEET, key=lambda each: affinity("a", each.engine), reverse=True)
    busy = [candidate(ranked[0].engine.replica, in_flight=20), *ranked[1:]]
    assert chosen("a", busy) == ranked[1].engine
    barely = [candidate(ranked[0].engine.replica, in_flight=4), *ranked[1:]]
    assert chosen("a", barely) == ranked[0].engine


def test_names_are_told_apart_exactly() -> None:
    assert len({affinity(name, FLEET[0].engine) for name in ("a", "A", "a ", "", "\ud800")}) == 5


def test_without_a_session_the_least_loaded_takes_it() -> None:
    assert chosen(None, [candidate("a:1", 3), candidate("b:1", 1)]).replica == "b:1"


@pytest.mark.parametrize("seed", range(5))
def test_kv_aware_breaks_ties_by_session(seed: int) -> None:
    assert chosen("a", FLEET, seed, "kv-aware") == chosen("a", FLEET, 0, "session")
