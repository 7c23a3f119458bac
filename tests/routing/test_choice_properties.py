"""What holds of every decision of kv-aware, whatever engines hold and do, with all terms of the cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from routing.changes import Put
from routing.cost import PROFILES
from routing.decision import Candidate, Prompt, RouteRequest
from routing.fit import SpeedFit
from routing.fleet import Fleet, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.load import Report
from routing.policies import POLICIES
from routing.policies.kv_aware import NOISE
from routing.reuse import ReuseChance
from routing.room import Room
from routing.router import Router
from routing.stakes import Stakes
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch, ReplicaId, Tier

TOKENS = 1000
BLOCKS = [BlockHash(number) for number in range(TOKENS // 16)]
REQUEST = RouteRequest("m", (Prompt(TOKENS, {Namespace("m", 16): BLOCKS}),))


@dataclass(frozen=True)
class State:
    """Of one engine."""

    held: int
    """leading blocks of the prompt"""
    others: int
    """blocks of other prompts"""
    running: int
    pending: int
    pending_tokens: int
    """of those that are pending; none are where nobody is"""
    others_waiting: int
    usage: float = 0.0
    """share of its memory that running requests held when it was last asked"""
    residence: float = 0.0


STATE = st.builds(
    State,
    held=st.integers(0, len(BLOCKS)),
    others=st.integers(0, 200),
    running=st.integers(0, 20),
    pending=st.integers(0, 5),
    pending_tokens=st.integers(0, 6000),
    others_waiting=st.integers(0, 5),
    usage=st.floats(0.0, 1.0),
    residence=st.floats(0.0, 60.0),
)


def engine(number: int) -> EngineId:
    return EngineId(ReplicaId(f"r{number}:1"), 0)


def candidates(states: Sequence[State]) -> Mapping[EngineId, Candidate]:
    fleet, room = Fleet(), Room(ReuseChance(), 600.0)
    for number, state in enumerate(states):
        id = engine(number)
        fleet.join(Replica(id.replica, f"http://{id.replica}", (ModelCard("m"),), capacity_blocks=300))
        other = range(1000 * (number + 1), 1000 * (number + 1) + state.others)
        room.apply(id, [Put(Tier.GPU, [*BLOCKS[: state.held], *map(BlockHash, other)])], 0.0)
        member = fleet.get(id)
        assert member is not None
        member.load.in_flight = state.running + state.pending
        member.load.context_tokens = 500 * state.running
        member.load.pending = state.pending
        member.load.pending_tokens = state.pending_tokens if state.pending else 0
        member.load.others_waiting = state.others_waiting
        member.load.report = Report(kv_usage=state.usage)
        member.load.reported_context = 500 * state.running
        member.load.residence = state.residence
    matches = {engine(number): PrefixMatch(state.held, state.held) for number, state in enumerate(states)}
    fit = SpeedFit(PROFILES["llama-8b-h100"])
    router = Router(fleet, FreshRoutes(2.0), fit, Stakes(room))
    return {one.engine: one for one in router.candidates(REQUEST, [matches], 1.0)}


@given(st.lists(STATE, min_size=1, max_size=5), st.integers(0, 100))
def test_nobody_waits_longer_than_elsewhere_but_for_what_others_have_at_stake(states: list[State], seed: int) -> None:
    found = list(candidates(states).values())
    chosen = POLICIES["kv-aware"](Random(seed)).choose(found).candidate.prediction
    for other in (one.prediction for one in found):
        at_stake = (other.cost - other.ttft) - (chosen.cost - chosen.ttft)
        assert chosen.ttft <= other.ttft + NOISE + at_stake + 1e-9


@given(
    st.lists(STATE, min_size=1, max_size=4),
    st.integers(0, 5),
    st.integers(0, 4000),
    st.integers(0, 20),
    st.floats(0, 1),
)
@example([State(0, 0, 0, pending=2, pending_tokens=0, others_waiting=0, usage=1.0, residence=0.0625)], 0, 1, 0, 0.0)
def test_an_engine_with_more_to_do_never_costs_less(
    states: list[State], pending: int, tokens: int, running: int, usage: float
) -> None:
    first, *rest = states
    busier = replace(
        first,
        running=first.running + running,
        pending=first.pending + pending,
        pending_tokens=first.pending_tokens + tokens,
        usage=max(first.usage, usage),
    )
    before, after = (candidates([state, *rest])[engine(0)].prediction for state in (first, busier))
    assert after.ttft >= before.ttft - 1e-9
    assert after.work >= before.work - 1e-9


@given(st.lists(STATE, min_size=2, max_size=4), st.integers(0, len(BLOCKS)))
def test_an_engine_that_holds_more_of_the_prompt_and_less_else_never_costs_more(states: list[State], more: int) -> None:
    first, *rest = states
    more = min(more, len(BLOCKS) - first.held, first.others)
    closer = replace(first, held=first.held + more, others=first.others - more)
    before, after = (candidates([state, *rest])[engine(0)].prediction for state in (first, closer))
    assert after.cost <= before.cost + 1e-9
