from collections.abc import Sequence
from math import exp

import pytest

from routing.changes import Change, Drop, Put, Wipe
from routing.reuse import ReuseChance
from routing.room import Occupancy, Room
from routing.types import BlockHash, EngineId, ReplicaId, Tier

A, B = EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("b:1"), 0)


def blocks(*names: int) -> Sequence[BlockHash]:
    return [BlockHash(name) for name in names]


def room() -> Room:
    return Room(ReuseChance(prior=0.5, weight=1.0), lifetime=100.0)


def test_an_engine_that_has_told_nothing_holds_nothing() -> None:
    assert room().occupancy(A, 1.0) == Occupancy(0, 0.0, 0.0)


def test_blocks_count_once_and_each_engine_for_itself() -> None:
    known = room()
    known.apply(A, [Put(Tier.GPU, blocks(1, 2)), Put(Tier.GPU, blocks(2, 3))], 0.0)
    assert (known.occupancy(A, 100.0).held, known.occupancy(B, 100.0).held) == (3, 0)


def test_unused_blocks_count_less_and_a_use_makes_them_fresh_again() -> None:
    known = room()
    known.apply(A, [Put(Tier.GPU, blocks(1, 2, 3, 4))], 0.0)
    assert known.occupancy(A, 100.0).fresh == pytest.approx(4 * exp(-1))
    known.use(A, blocks(1, 2, 99), 100.0)
    assert known.occupancy(A, 100.0).fresh == pytest.approx(2 + 2 * exp(-1))
    assert known.occupancy(A, 100.0).held == 4


@pytest.mark.parametrize("gone", [[Drop(Tier.GPU, blocks(1, 2, 7))], [Wipe(Tier.GPU)], [Wipe(None)]])
def test_what_left_the_cache_counts_no_more(gone: Sequence[Change]) -> None:
    known = room()
    known.apply(A, [Put(Tier.GPU, blocks(1, 2))], 0.0)
    known.apply(A, gone, 50.0)
    assert known.occupancy(A, 100.0).held == 0
    assert known.occupancy(A, 60.0).fresh == pytest.approx(0.0, abs=1e-12)


def test_other_tiers_take_no_room_of_the_gpu() -> None:
    known = room()
    known.apply(A, [Put(Tier.CPU, blocks(1)), Wipe(Tier.CPU)], 0.0)
    assert known.occupancy(A, 100.0).held == 0


def test_an_engine_that_left_is_forgotten() -> None:
    known = room()
    known.apply(A, [Put(Tier.GPU, blocks(1))], 0.0)
    known.forget(A)
    assert known.occupancy(A, 100.0).held == 0


def test_what_goes_next_is_what_was_used_longest_ago() -> None:
    known = room()
    known.apply(A, [Put(Tier.GPU, blocks(1)), Put(Tier.GPU, blocks(2))], 0.0)
    known.use(A, blocks(1), 4.0)
    known.apply(A, [Drop(Tier.GPU, blocks(2))], 300.0)
    # Of the two that became four seconds old one was used again, of the one that became 300 s old none was.
    assert known.occupancy(A, 4.0 + 4.5).wanted_at_end > known.occupancy(A, 4.0 + 300.0).wanted_at_end
