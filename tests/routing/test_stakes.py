"""What a placement costs others: idle or busy, with room left or none."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from routing.changes import Drop, Put
from routing.cost import PROFILES
from routing.fleet import Engine, Fleet, ModelCard, Replica
from routing.reuse import ReuseChance
from routing.room import Room
from routing.stakes import QUEUED, STALLED, WORK, Stakes
from routing.types import BlockHash, EngineId, ReplicaId, Tier

PROFILE = PROFILES["llama-8b-h100"]
CAPACITY = 100


class Stake(NamedTuple):
    """As `cost.Stake`."""

    room: float
    moving: float
    behind: float


def stake(
    stakes: Stakes, fleet: Sequence[Engine], engine: Engine, blocks: int, new_blocks: int, left: int, now: float
) -> Stake:
    placements = [(blocks, new_blocks, left)] * len(fleet)
    return Stake(*stakes.of(fleet, [PROFILE] * len(fleet), placements, now)[fleet.index(engine)])


class World:
    """Two engines of `capacity` blocks, of which the first holds some."""

    def __init__(self, held: int = 0, held_by_other: int = 0, capacity: int = CAPACITY) -> None:
        fleet = Fleet()
        self.a, self.b = (self._joined(fleet, name, capacity) for name in "ab")
        self.room = Room(ReuseChance(), 600.0)
        self.room.apply(self.a.id, [Put(Tier.GPU, [BlockHash(block) for block in range(held)])], 0.0)
        self.room.apply(self.b.id, [Put(Tier.GPU, [BlockHash(1000 + block) for block in range(held_by_other)])], 0.0)
        self.stakes = Stakes(self.room)

    def of(self, engine: Engine, new_blocks: int, left: int = 0, now: float = 1.0, blocks: int = 50) -> Stake:
        return stake(self.stakes, [self.a, self.b], engine, blocks, new_blocks, left, now)

    @staticmethod
    def _joined(fleet: Fleet, name: str, capacity: int) -> Engine:
        id = ReplicaId(name)
        fleet.join(Replica(id, f"http://{name}", (ModelCard("m"),), capacity_blocks=capacity))
        engine = fleet.get(EngineId(id, 0))
        assert engine is not None
        return engine


def test_the_fuller_cache_costs_more_while_the_other_has_room() -> None:
    world = World(held=60)
    assert world.of(world.a, 20).room > world.of(world.b, 20).room


def test_an_emptier_cache_is_worth_copying_a_prompt_to_however_short_it_is() -> None:
    world = World(held=90)
    for blocks in (1, 5, 20, 40):
        saved = world.of(world.a, 0, blocks=blocks).room - world.of(world.b, blocks, blocks=blocks).room
        assert saved > (1 + WORK) * blocks * world.a.namespace.block_size * PROFILE.prefill_per_token


def test_what_is_little_of_a_large_cache_is_worth_copying_a_short_prompt_but_no_conversation() -> None:
    world = World(held=150, capacity=10_000)
    for left, worth in ((0, True), (18, False)):
        fuller, emptier = (world.of(engine, 1, left, blocks=20).room for engine in (world.a, world.b))
        assert (fuller > emptier) is worth


def test_an_engine_that_came_back_empty_is_not_worth_a_long_wait() -> None:
    world = World(held=90)
    of_short, of_long = (world.of(world.a, 0, blocks=blocks).room for blocks in (5, 10))
    assert of_long == pytest.approx(2 * of_short)


def test_prompts_on_their_way_drive_new_ones_elsewhere_but_none_of_which_all_is_held() -> None:
    world = World(held=20, held_by_other=20)
    world.a.load.in_flight = world.a.load.pending = 1
    world.a.load.pending_tokens = 40 * world.a.namespace.block_size
    assert world.of(world.a, 20, blocks=20).room > world.of(world.b, 20, blocks=20).room
    assert world.of(world.a, 0, blocks=20).room == 0.0


def test_where_both_are_full_neither_is_dearer() -> None:
    world = World(held=CAPACITY, held_by_other=CAPACITY)
    dear, cheap = world.of(world.a, 20).room, world.of(world.b, 20).room
    assert dear == pytest.approx(cheap, rel=0.01)
    assert dear > 0


def test_of_full_caches_the_one_that_was_left_alone_for_longer_than_any_before_is_not_dearer() -> None:
    world = World(held=CAPACITY, held_by_other=CAPACITY)
    world.room.apply(world.b.id, [Drop(Tier.GPU, [BlockHash(1000 + block) for block in range(CAPACITY)])], 30.0)
    world.room.apply(world.b.id, [Put(Tier.GPU, [BlockHash(2000 + block) for block in range(CAPACITY)])], 30.0)
    left_alone, turned_over = (world.of(engine, 20, now=60.0).room for engine in (world.a, world.b))
    assert left_alone <= turned_over


def test_what_pushes_more_out_costs_more() -> None:
    world = World(held=CAPACITY, held_by_other=CAPACITY)
    costs = [world.of(world.a, blocks).room for blocks in (0, 10, 20, 40)]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_an_engine_that_does_not_tell_its_size_has_room() -> None:
    world = World(held=60)
    unsized = Engine(EngineId(ReplicaId("c"), 0), Replica(ReplicaId("c"), "http://c", (ModelCard("m"),)))
    assert stake(world.stakes, [world.a, unsized], unsized, 50, 20, 0, 1.0).room == 0.0


def test_work_on_an_idle_fleet_costs_others_a_share_of_itself() -> None:
    world = World()
    assert world.of(world.a, 20).behind == WORK


def test_work_costs_all_who_wait_there() -> None:
    world = World()
    world.a.load.in_flight = world.a.load.pending = 7
    assert world.of(world.a, 20).behind == pytest.approx(WORK + 7)


def test_work_costs_where_nobody_waits_because_those_who_wait_elsewhere_could_come() -> None:
    world = World()
    for waiting, counted in ((2, 1), (100, QUEUED)):
        world.a.load.in_flight = world.a.load.pending = waiting
        assert world.of(world.b, 20).behind == pytest.approx(WORK + counted)


def test_work_costs_those_who_decode_beside_it() -> None:
    world = World()
    world.a.load.in_flight = 3
    assert world.of(world.a, 20).behind == pytest.approx(WORK + 3 * STALLED)


def test_a_conversation_costs_the_more_to_move_the_longer_it_is() -> None:
    world = World()
    costs = [world.of(world.a, 20, left).moving for left in (0, 10, 40)]
    assert costs[0] == 0.0
    assert costs == sorted(costs)
