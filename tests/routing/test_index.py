import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.index import PrefixIndex
from routing.ledger import Change, Drop, Put, Wipe
from routing.types import BlockHash, EngineId, PrefixMatch, ReplicaId, Tier


def engine(number: int, rank: int = 0) -> EngineId:
    return EngineId(ReplicaId(f"10.0.0.{number}:8000"), rank)


def blocks(*numbers: int) -> list[BlockHash]:
    return [BlockHash(number) for number in numbers]


A, B = engine(1), engine(2)


class Oracle:
    """The same answers from sets, one block and one engine at a time."""

    def __init__(self) -> None:
        self.held: dict[EngineId, dict[Tier, set[BlockHash]]] = {}

    def apply(self, engine: EngineId, changes: list[Change]) -> None:
        tiers = self.held.setdefault(engine, {Tier.GPU: set(), Tier.CPU: set()})
        for change in changes:
            match change:
                case Put(tier, blocks):
                    tiers[tier].update(blocks)
                case Drop(tier, blocks):
                    tiers[tier].difference_update(blocks)
                case Wipe(None):
                    tiers.update({Tier.GPU: set(), Tier.CPU: set()})
                case Wipe(Tier() as tier):
                    tiers[tier] = set()

    def match(self, chain: list[BlockHash]) -> dict[EngineId, PrefixMatch]:
        found = {}
        for engine, tiers in self.held.items():
            l0 = next((i for i, block in enumerate(chain) if block not in tiers[Tier.GPU]), len(chain))
            both = tiers[Tier.GPU] | tiers[Tier.CPU]
            l1 = next((i for i, block in enumerate(chain) if block not in both), len(chain))
            if l1:
                found[engine] = PrefixMatch(l0, l1)
        return found


def test_a_prefix_is_as_long_as_its_blocks_are_held_in_a_row() -> None:
    index = PrefixIndex()
    index.apply(A, [Put(Tier.GPU, blocks(1, 2, 3))])
    assert index.match(blocks(1, 2, 3, 4)) == {A: PrefixMatch(3, 3)}


def test_a_hole_ends_the_prefix() -> None:
    index = PrefixIndex()
    index.apply(A, [Put(Tier.GPU, blocks(1, 2, 3)), Drop(Tier.GPU, blocks(2))])
    assert index.match(blocks(1, 2, 3)) == {A: PrefixMatch(1, 1)}


def test_host_memory_carries_on_where_the_gpu_ends() -> None:
    index = PrefixIndex()
    index.apply(A, [Put(Tier.GPU, blocks(1, 3)), Put(Tier.CPU, blocks(2))])
    assert index.match(blocks(1, 2, 3, 4)) == {A: PrefixMatch(1, 3)}


def test_an_engine_that_holds_nothing_of_it_is_absent() -> None:
    index = PrefixIndex()
    index.apply(A, [Put(Tier.GPU, blocks(7))])
    assert index.match(blocks(1)) == {}
    assert index.match([]) == {}


def test_wiping_the_gpu_leaves_host_memory() -> None:
    index = PrefixIndex()
    index.apply(A, [Put(Tier.GPU, blocks(1, 2)), Put(Tier.CPU, blocks(1)), Wipe(Tier.GPU)])
    assert index.match(blocks(1, 2)) == {A: PrefixMatch(0, 1)}


def test_dropping_what_is_not_held_changes_nothing() -> None:
    index = PrefixIndex()
    index.apply(B, [Put(Tier.GPU, blocks(1))])
    index.apply(A, [Drop(Tier.GPU, blocks(1, 2))])
    assert index.match(blocks(1)) == {B: PrefixMatch(1, 1)}


def test_storage_belongs_to_no_engine() -> None:
    index = PrefixIndex()
    index.apply(A, [Put(Tier.STORAGE, blocks(1)), Wipe(Tier.STORAGE)])
    assert len(index) == 0
    assert index.held(A, Tier.STORAGE) == 0


def test_nothing_remains_of_an_engine_that_left() -> None:
    index = PrefixIndex()
    index.apply(A, [Put(Tier.GPU, blocks(1, 2)), Put(Tier.CPU, blocks(2, 3))])
    index.apply(B, [Put(Tier.GPU, blocks(1))])
    index.forget(A)
    assert index.match(blocks(1, 2)) == {B: PrefixMatch(1, 1)}
    assert len(index) == 1
    assert (index.held(A, Tier.GPU), index.held(A, Tier.CPU)) == (0, 0)


def test_a_slot_is_used_again_and_starts_empty() -> None:
    index = PrefixIndex()
    for number in range(1000):
        index.apply(engine(number), [Put(Tier.GPU, blocks(1, number + 10))])
        index.forget(engine(number))
    index.apply(A, [Put(Tier.GPU, blocks(2))])
    assert index.match(blocks(1, 2)) == {}
    assert index.match(blocks(2)) == {A: PrefixMatch(1, 1)}


def test_ranks_of_one_replica_are_told_apart() -> None:
    index = PrefixIndex()
    index.apply(engine(1, 0), [Put(Tier.GPU, blocks(1, 2))])
    index.apply(engine(1, 1), [Put(Tier.GPU, blocks(1))])
    assert index.match(blocks(1, 2)) == {engine(1, 0): PrefixMatch(2, 2), engine(1, 1): PrefixMatch(1, 1)}


change = st.one_of(
    st.builds(Put, st.sampled_from([Tier.GPU, Tier.CPU]), st.lists(st.integers(0, 12), max_size=8)),
    st.builds(Drop, st.sampled_from([Tier.GPU, Tier.CPU]), st.lists(st.integers(0, 12), max_size=8)),
    st.builds(Wipe, st.sampled_from([None, Tier.GPU, Tier.CPU])),
)
step = st.tuples(st.integers(0, 5), st.one_of(st.lists(change, max_size=3), st.none()))


@given(st.lists(step, max_size=40), st.lists(st.integers(0, 12), unique=True))
@settings(max_examples=400)
def test_any_history_gives_what_the_oracle_gives(
    history: list[tuple[int, list[Change] | None]], chain: list[BlockHash]
) -> None:
    index, oracle = PrefixIndex(), Oracle()
    for number, changes in history:
        if changes is None:
            index.forget(engine(number))
            oracle.held.pop(engine(number), None)
        else:
            index.apply(engine(number), changes)
            oracle.apply(engine(number), changes)
    assert index.match(chain) == oracle.match(chain)
    for held_by, tiers in oracle.held.items():
        assert all(index.held(held_by, tier) == len(held) for tier, held in tiers.items())


@pytest.mark.parametrize("seed", range(20))
def test_long_chains_of_which_engines_hold_prefixes_are_matched_exactly(seed: int) -> None:
    rng = random.Random(seed)
    index, oracle = PrefixIndex(), Oracle()
    chain = blocks(*(rng.getrandbits(64) for _ in range(3000)))
    for number in range(24):
        l0, l1 = rng.randrange(3001), rng.choice([0, rng.randrange(3001)])
        changes: list[Change] = [Put(Tier.GPU, chain[:l0]), Put(Tier.CPU, chain[:l1])]
        index.apply(engine(number), changes)
        oracle.apply(engine(number), changes)
    assert index.match(chain) == oracle.match(chain)
