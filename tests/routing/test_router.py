from random import Random

import pytest

from routing.cost import PROFILES, UNPREDICTED
from routing.decision import Prompt, RouteRequest
from routing.errors import NoReplicaAvailable, UnknownModel
from routing.fit import SpeedFit
from routing.fleet import Fleet, Lease, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.ledger import Put
from routing.policies import POLICIES
from routing.reuse import ReuseChance
from routing.room import Room
from routing.router import Router
from routing.stakes import Stakes
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch, ReplicaId, Tier

A, B = EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("b:1"), 0)
SPACE = Namespace("m", 16)


def request(tokens: int, first: int = 0) -> RouteRequest:
    blocks = [BlockHash(first + number) for number in range(tokens // 16)]
    return RouteRequest("m", (Prompt(tokens, {SPACE: blocks}),))


class World:
    """Two idle replicas."""

    def __init__(self, capacity: int | None = None) -> None:
        self.fleet = Fleet()
        for id in (A, B):
            cards = (ModelCard("m"),)
            self.fleet.join(Replica(id.replica, f"http://{id.replica}", cards, capacity_blocks=capacity))
        self.room = Room(ReuseChance(), 600.0)
        fit = SpeedFit(PROFILES["qwen3-32b-h100"])
        self.fresh = FreshRoutes(2.0)
        self.router = Router(self.fleet, self.fresh, fit, Stakes(self.room))
        self.kv_aware = POLICIES["kv-aware"](Random(0))


def test_what_a_request_repeats_in_itself_every_engine_will_hold() -> None:
    world = World()
    one = request(100).prompts[0]
    again = one._replace(repeated={SPACE: 6})
    candidates = world.router.candidates(RouteRequest("m", (one, again)), [{A: PrefixMatch(6, 6)}, {}], 0.0)
    assert {candidate.engine: candidate.held for candidate in candidates} == {A: 192, B: 96}


@pytest.mark.parametrize(
    ("why", "tokens", "held", "cached"),
    [
        ("a partial block is not cached", 100, 6, 96),
        ("a full prompt's last block is computed for its last token", 96, 6, 80),
        ("one token more and it is a hit", 97, 6, 96),
        ("less is held than the prompt has", 100, 2, 32),
        ("nothing is held", 100, 0, 0),
        ("a single token", 1, 0, 0),
    ],
)
def test_predicted_cached_tokens_follow_the_engines_rule(why: str, tokens: int, held: int, cached: int) -> None:
    world = World()
    matches = [{A: PrefixMatch(held, held)}] if held else [{}]
    decision = world.router.route(request(tokens), matches, world.kv_aware, 0.0)
    assert decision.cached_tokens == cached, why
    assert decision.new_tokens == tokens - cached


@pytest.mark.parametrize(
    ("why", "held", "cached"),
    [("the last block of a hit is computed again", 6, 80), ("all of it", 1, 0), ("none", 0, 0)],
)
def test_what_an_engine_computes_again_is_not_cached(why: str, held: int, cached: int) -> None:
    world = World()
    world.fleet.join(Replica(A.replica, "http://a:1", (ModelCard("m"),), recomputed_blocks=1))
    matches = [{A: PrefixMatch(held, held)}] if held else [{}]
    decision = world.router.route(request(100), matches, world.kv_aware, 0.0, excluding={B.replica})
    assert decision.cached_tokens == cached, why


def test_host_memory_counts_as_cached() -> None:
    world = World()
    decision = world.router.route(request(1000), [{A: PrefixMatch(2, 60)}], world.kv_aware, 0.0)
    assert (decision.engine, decision.cached_tokens) == (A, 960)


def test_prompts_of_one_request_are_added_up() -> None:
    world = World()
    prompts = (*request(100).prompts, *request(50, first=1000).prompts)
    matches = [{A: PrefixMatch(6, 6)}, {A: PrefixMatch(2, 2)}]
    decision = world.router.route(RouteRequest("m", prompts), matches, world.kv_aware, 0.0)
    assert (decision.prompt_tokens, decision.cached_tokens) == (150, 128)


def test_equal_prompts_that_arrive_together_go_to_one_replica() -> None:
    for seed in range(20):
        world = World()
        policy = POLICIES["kv-aware"](Random(seed))
        first = world.router.route(request(1000), [{}], policy, 0.0)
        Lease(world.fleet.get(first.engine).load, first.prompt_tokens, first.new_tokens, 0.0)  # type: ignore[union-attr]
        second = world.router.route(request(1000), [{}], policy, 0.001)
        assert second.engine == first.engine
        assert (first.cached_tokens, second.cached_tokens) == (0, 992)


def test_a_request_that_got_no_answer_leaves_no_credit() -> None:
    world = World()
    first = world.router.route(request(1000), [{}], world.kv_aware, 0.0)
    world.router.withdraw(first)
    assert {c.l0 for c in world.router.candidates(request(1000), [{}], 0.1)} == {0}


def test_each_prompt_of_a_request_is_credited_by_itself() -> None:
    world = World()
    world.fleet.leave(B.replica)
    ours, last = ([BlockHash(first + number) for number in range(6)] for first in (0, 1000))
    others = [*ours[:2], *(BlockHash(2000 + number) for number in range(4))]

    def prompts(*chains: list[BlockHash]) -> RouteRequest:
        return RouteRequest("m", tuple(Prompt(100, {SPACE: chain}) for chain in chains))

    def held(chain: list[BlockHash], now: float) -> int:
        return world.router.candidates(prompts(chain), [{}], now)[0].held

    first, second = (
        world.router.route(prompts(chain, last), [{}, {}], world.kv_aware, 0.0) for chain in (ours, others)
    )
    world.router.began(first, 1.0)
    assert (held(ours, 2.9), held(others, 2.9), held(last, 2.9)) == (96, 96, 96)
    world.router.withdraw(second)
    assert (held(ours, 2.9), held(others, 2.9), held(last, 2.9)) == (0, 0, 0)


def test_different_prompts_that_arrive_together_spread() -> None:
    world = World()
    first = world.router.route(request(1000), [{}], world.kv_aware, 0.0)
    Lease(world.fleet.get(first.engine).load, first.prompt_tokens, first.new_tokens, 0.0)  # type: ignore[union-attr]
    second = world.router.route(request(1000, first=5000), [{}], world.kv_aware, 0.001)
    assert second.engine != first.engine


def test_new_prefixes_go_where_they_push_nothing_out() -> None:
    world = World(capacity=100)
    world.room.apply(A, [Put(Tier.GPU, [BlockHash(9000 + number) for number in range(90)])], 0.0)
    assert world.router.route(request(1000), [{}], world.kv_aware, 0.0).engine == B


def test_a_prompt_that_was_not_read_has_no_prediction() -> None:
    world = World()
    decision = world.router.route(RouteRequest("m"), (), world.kv_aware, 0.0)
    assert (decision.cached_tokens, decision.prompt_tokens) == (None, 0)


def test_policies_that_go_by_load_choose_among_the_same_engines_without_predictions() -> None:
    world = World()
    by_turns = POLICIES["round-robin"](Random(0))

    def chosen(*excluding: ReplicaId, bound: ReplicaId | None = None) -> EngineId:
        asked = RouteRequest("m", replica=bound)
        decision = world.router.route_by_load(asked, by_turns, set(excluding))
        assert (decision.cached_tokens, decision.prediction) == (None, UNPREDICTED)
        return decision.engine

    assert {chosen(), chosen()} == {A, B}
    assert chosen(A.replica) == B
    assert [chosen(bound=A.replica) for _ in range(2)] == [A, A]
    world.fleet.leave(A.replica)
    assert chosen(bound=A.replica) == B
    with pytest.raises(NoReplicaAvailable):
        chosen(B.replica)
    with pytest.raises(UnknownModel):
        world.router.route_by_load(RouteRequest("other"), by_turns)


def test_an_unknown_model_is_told_from_one_whose_replicas_are_away() -> None:
    world = World()
    with pytest.raises(UnknownModel):
        world.router.route(RouteRequest("other"), (), world.kv_aware, 0.0)
    with pytest.raises(NoReplicaAvailable):
        world.router.route(RouteRequest("m"), (), world.kv_aware, 0.0, {A.replica, B.replica})
    world.fleet.leave(A.replica)
    world.fleet.leave(B.replica)
    with pytest.raises(NoReplicaAvailable):
        world.router.route(RouteRequest("m"), (), world.kv_aware, 0.0)


def test_an_excluded_replica_is_not_chosen() -> None:
    world = World()
    matches = [{A: PrefixMatch(60, 60)}]
    assert world.router.route(request(1000), matches, world.kv_aware, 0.0, {A.replica}).engine == B


def test_blocks_of_another_size_are_looked_up_in_their_own_chain() -> None:
    world = World()
    world.fleet.learn_block_size(B, 32)
    small, large = [BlockHash(n) for n in range(6)], [BlockHash(100 + n) for n in range(3)]
    prompt = Prompt(100, {SPACE: small, Namespace("m", 32): large})
    matches = [{A: PrefixMatch(1, 1), B: PrefixMatch(3, 3)}]
    found = {c.engine: c.l0 for c in world.router.candidates(RouteRequest("m", (prompt,)), matches, 0.0)}
    assert found == {A: 16, B: 96}


def test_a_hybrid_engine_is_credited_with_whole_prompts_only() -> None:
    world = World()
    for engine in world.fleet:
        engine.windowed = True
    sent = world.router.route(request(500), [{}], world.kv_aware, 0.0).engine

    def held(tokens: int) -> int:
        candidates = world.router.candidates(request(tokens), [{}], 0.1)
        return next(candidate.held for candidate in candidates if candidate.engine == sent)

    assert (held(500), held(900), held(300), held(496)) == (496, 496, 0, 0)


def test_the_last_block_of_a_prompt_that_fills_it_is_not_credited_to_a_hybrid_engine() -> None:
    world = World()
    for engine in world.fleet:
        engine.windowed = True
    sent = world.router.route(request(496), [{}], world.kv_aware, 0.0).engine
    candidates = world.router.candidates(request(900), [{}], 0.1)
    assert {candidate.engine: candidate.held for candidate in candidates}[sent] == 480


def test_a_prompt_of_which_only_the_beginning_is_known_is_not_credited_to_a_hybrid_engine() -> None:
    world = World()
    for engine in world.fleet:
        engine.windowed = True
    before_its_image = request(500).prompts[0]._replace(whole=False)
    world.router.route(RouteRequest("m", (before_its_image,)), [{}], world.kv_aware, 0.0)
    assert {candidate.held for candidate in world.router.candidates(request(900), [{}], 0.1)} == {0}


def test_what_a_request_repeats_in_itself_a_hybrid_engine_may_not_go_on_from() -> None:
    world = World()
    for engine in world.fleet:
        engine.windowed = True
    again = request(100).prompts[0]._replace(repeated={SPACE: 6})
    candidates = world.router.candidates(RouteRequest("m", (again,)), [{}], 0.0)
    assert {candidate.held for candidate in candidates} == {0}


def test_of_what_other_gateways_tell_nothing_is_promised() -> None:
    world = World()
    blocks = request(500).prompts[0].chains[SPACE]
    world.fresh.hear(A, blocks, until=3.0, now=0.0)
    decision = world.router.route(request(500), [{}], world.kv_aware, 0.1)
    assert (decision.engine, decision.held_tokens, decision.cached_tokens) == (A, 496, None)
    known = world.router.route(request(500), [{A: PrefixMatch(31, 31)}], world.kv_aware, 0.2)
    assert (known.held_tokens, known.cached_tokens) == (496, 496)
