from collections.abc import Sequence
from math import exp
from random import Random

import pytest

from routing.changes import Change, Drop, Put, Wipe
from routing.reuse import ReuseChance
from routing.room import Room
from routing.types import BlockHash, EngineId, ReplicaId, Tier

A, B = EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("b:1"), 0)


def blocks(*names: int) -> Sequence[BlockHash]:
    return [BlockHash(name) for name in names]


def room() -> Room:
    return Room(ReuseChance(prior=0.5, weight=1.0), lifetime=100.0)


def held(known: Room, engine: EngineId) -> int:
    return known.occupancies([engine], 100.0)[0][0]


def fresh(known: Room, now: float) -> float:
    return known.occupancies([A], now)[0][1]


def wanted_at_end(known: Room, now: float) -> float:
    return known.occupancies([A], now)[0][2]


def test_an_engine_that_has_told_nothing_holds_nothing() -> None:
    assert room().occupancies([A, B], 1.0) == [(0, 0.0, 0.0), (0, 0.0, 0.0)]


def test_blocks_count_once_and_each_engine_for_itself() -> None:
    known = room()
    known.apply(A, [Put(Tier.GPU, blocks(1, 2)), Put(Tier.GPU, blocks(2, 3))], 0.0)
    assert (held(known, A), held(known, B)) == (3, 0)


def test_unused_blocks_count_less_and_a_use_makes_them_fresh_again() -> None:
    known = room()
    known.apply(A, [Put(Tier.GPU, blocks(1, 2, 3, 4))], 0.0)
    assert fresh(known, 100.0) == pytest.approx(4 * exp(-1))
    known.use(A, blocks(1, 2, 99), 100.0)
    assert fresh(known, 100.0) == pytest.approx(2 + 2 * exp(-1))
    assert held(known, A) == 4


@pytest.mark.parametrize("gone", [[Drop(Tier.GPU, blocks(1, 2, 7))], [Wipe(Tier.GPU)], [Wipe(None)]])
def test_what_left_the_cache_counts_no_more(gone: Sequence[Change]) -> None:
    known = room()
    known.apply(A, [Put(Tier.GPU, blocks(1, 2))], 0.0)
    known.apply(A, gone, 50.0)
    assert held(known, A) == 0
    assert fresh(known, 60.0) == pytest.approx(0.0, abs=1e-12)


def test_other_tiers_take_no_room_of_the_gpu() -> None:
    known = room()
    known.apply(A, [Put(Tier.CPU, blocks(1)), Wipe(Tier.CPU)], 0.0)
    assert held(known, A) == 0


def test_an_engine_that_left_is_forgotten() -> None:
    known = room()
    known.apply(A, [Put(Tier.GPU, blocks(1))], 0.0)
    known.forget(A)
    assert held(known, A) == 0


def test_what_goes_next_is_what_was_used_longest_ago() -> None:
    known = room()
    known.apply(A, [Put(Tier.GPU, blocks(1)), Put(Tier.GPU, blocks(2))], 0.0)
    known.use(A, blocks(1), 4.0)
    known.apply(A, [Drop(Tier.GPU, blocks(2))], 300.0)
    # Of the two that became four seconds old one was used again, of the one that became 300 s old none was.
    assert wanted_at_end(known, 4.0 + 4.5) > wanted_at_end(known, 4.0 + 300.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_time_of_every_block_is_known_however_they_were_used_together(seed: int) -> None:
    random = Random(seed)
    used: dict[BlockHash, float] = {}
    known = room()
    prompts = [list(map(BlockHash, range(1000 * number, 1000 * number + 200))) for number in range(3)]
    prompts += [[*prompts[0][: random.randint(1, 200)], *blocks(*range(5000, 5100))] for _ in range(2)]
    for step in range(200):
        now, prompt = float(step), random.choice(prompts)
        start, end = sorted(random.choices(range(len(prompt) + 1), k=2))
        tail = prompt[end - (end - start) // 8 : end]
        match random.choice("pud"):
            case "p":
                known.apply(A, [Put(Tier.GPU, prompt[start:end])], now)
                used = {**dict.fromkeys(prompt[start:end], now), **used}
            case "d":
                known.apply(A, [Drop(Tier.GPU, tail)], now)
                used = {block: at for block, at in used.items() if block not in tail}
            case "u":
                known.use(A, prompt[:end], now)
                used |= {block: now for block in prompt[:end] if block in used}
        assert held(known, A) == len(used)
        assert fresh(known, now) == pytest.approx(sum(exp((at - now) / 100.0) for at in used.values()), abs=1e-6)
