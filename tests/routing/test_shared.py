from random import Random

import pytest

from routing.cost import PROFILES
from routing.decision import Prompt, RouteRequest
from routing.fit import SpeedFit
from routing.fleet import Fleet, Lease, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.policies import POLICIES
from routing.reuse import ReuseChance
from routing.room import Room
from routing.router import Router
from routing.shared import NOTHING_SHARED, SharedPrefix
from routing.stakes import Stakes
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch, ReplicaId

SPEED = PROFILES["llama-8b-l40s"]

A, B = EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("b:1"), 0)
SPACE = Namespace("m", 16)
FAST = SharedPrefix(tokens=2560, chunk=256, base=0.005, per_token=1e-5)


def request(tokens: int) -> RouteRequest:
    return RouteRequest("m", (Prompt(tokens, {SPACE: [BlockHash(n) for n in range(tokens // 16)]}),))


def router() -> tuple[Router, Fleet]:
    fleet = Fleet()
    for id in (A, B):
        fleet.join(Replica(id.replica, f"http://{id.replica}", (ModelCard("m"),)))
    return Router(fleet, FreshRoutes(2.0), SpeedFit(SPEED), Stakes(Room(ReuseChance(), 600.0))), fleet


@pytest.mark.parametrize(
    ("why", "stored", "l0", "l1", "reusable", "beyond"),
    [
        ("nothing is stored", 0, 0, 0, 3000, 0),
        ("all of it, where the engine has nothing", 512, 0, 0, 3000, 512),
        ("only what goes beyond the GPU", 512, 240, 240, 3000, 272),
        ("only what goes beyond host memory", 512, 0, 256, 3000, 256),
        ("less than the engine has", 512, 544, 544, 3000, 0),
        ("the last token is computed in any case", 512, 0, 0, 511, 511),
    ],
)
def test_what_an_engine_gets_from_shared_storage(
    why: str, stored: int, l0: int, l1: int, reusable: int, beyond: int
) -> None:
    assert SharedPrefix(stored, 256).beyond(l0, l1, reusable) == beyond, why


def test_an_engine_that_would_load_too_little_does_not_load() -> None:
    shared = SharedPrefix(512, 256, least=512)
    assert shared.beyond(0, 0, 3000) == 512
    assert shared.beyond(16, 16, 3000) == 0
    assert shared.beyond(0, 256, 3000) == 256, "the load from host memory counts"


def test_whole_chunks_are_loaded() -> None:
    assert FAST.load(0, 512) == pytest.approx(0.005 + 512e-5)
    assert FAST.load(240, 272) == pytest.approx(0.005 + 512e-5)
    assert FAST.load(240, 0) == 0.0


def test_every_replica_is_a_candidate_for_what_is_shared_so_load_decides() -> None:
    route, fleet = router()
    policy = POLICIES["kv-aware"](Random(0))
    Lease(fleet.get(A).load, 20_000, 20_000, 0.0)  # type: ignore[union-attr]
    decision = route.route(request(2600), [{A: PrefixMatch(160, 160)}], policy, 0.0, shared=[FAST])
    assert decision.engine == B
    assert (decision.cached_tokens, decision.l2_tokens) == (2560, 2560)
    assert decision.prediction.shared == pytest.approx(0.005 + 2560e-5)
    assert decision.prediction.spared > decision.prediction.shared
    assert "2560 more in shared storage" in decision.reason


def test_an_idle_replica_that_holds_it_is_better() -> None:
    route, _ = router()
    policy = POLICIES["kv-aware"](Random(0))
    decision = route.route(request(2600), [{A: PrefixMatch(160, 160)}], policy, 0.0, shared=[FAST])
    assert (decision.engine, decision.l2_tokens) == (A, 0)


def test_a_load_that_does_not_pay_attracts_nobody() -> None:
    route, _ = router()
    slow = FAST._replace(per_token=1e-3)
    with_slow, without = route.candidates(request(2600), [{}], 0.0, shared=[slow])[0], route.candidates(
        request(2600), [{}], 0.0)[0]  # fmt: skip
    assert with_slow.prediction.cost > without.prediction.cost
    assert with_slow.prediction.spared < with_slow.prediction.shared
    assert with_slow.held == 2560, "the engine loads it all the same"


def test_each_prompt_of_a_request_has_its_own() -> None:
    route, _ = router()
    two = RouteRequest("m", (*request(2600).prompts, *request(2600).prompts))
    candidate = route.candidates(two, [{}, {}], 0.0, shared=[FAST, NOTHING_SHARED])[0]
    assert candidate.l2 == 2560
