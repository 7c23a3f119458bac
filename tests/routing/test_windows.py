"""Prefixes of hybrid models, as far as every group allows."""

from collections.abc import Sequence
from random import Random

import pytest

from routing.blocks import block_hashes, root_hash
from routing.events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent
from routing.index import PrefixIndex
from routing.ledger import Ledger
from routing.types import EngineHash, EngineId, PrefixMatch, ReplicaId, Tier

SECRET, MODEL, SIZE = b"", "m", 2
ENGINE = EngineId(ReplicaId("a:1"), 0)
NAMES = block_hashes(range(40), SIZE, root_hash(SECRET, MODEL, SIZE))
"""of the prompt 0, 1, 2, ...; the engine calls its blocks 100, 101, ..."""
WINDOW = 6
"""tokens: three blocks before the end"""


def whole(first: int, end: int) -> BlockStored:
    hashes = [EngineHash(100 + block) for block in range(first, end)]
    parent = EngineHash(99 + first) if first else None
    return BlockStored(hashes, parent, range(first * SIZE, end * SIZE), SIZE, Tier.GPU, None, None, group=1)


def partly(*blocks: int, group: int = 0, kind: str = "sliding_window", size: int = SIZE) -> BlockStored:
    """Some blocks of the range from position 0, as a group tells of them that keeps no others."""
    hashes = [EngineHash(100 + block) for block in blocks]
    window = None if kind == "mamba" else WINDOW
    return BlockStored(hashes, None, range(40), size, Tier.GPU, None, None, group=group, kind=kind, window=window)


def gone(*blocks: int, group: int = 0) -> BlockRemoved:
    return BlockRemoved([EngineHash(100 + block) for block in blocks], Tier.GPU, group)


class Engine:
    def __init__(self) -> None:
        self.ledger, self.index = Ledger(SECRET, MODEL), PrefixIndex()

    def tell(self, *events: KVEvent) -> "Engine":
        for event in events:
            self.index.apply(ENGINE, self.ledger.apply(event))
        return self

    def prefix(self, most: int = len(NAMES)) -> int:
        return self.index.match(NAMES, most).get(ENGINE, PrefixMatch(0, 0)).l0


@pytest.mark.parametrize(
    ("why", "events", "most", "blocks"),
    [
        ("the window before the end is held", [partly(7, 8, 9), whole(0, 10)], 20, 10),
        ("an engine looks up less: there the window is not", [partly(7, 8, 9), whole(0, 10)], 9, 0),
        ("an earlier end is allowed too", [partly(2, 3, 4, 8, 9), whole(0, 10)], 20, 5),
        ("from the first block on fewer than a window will do", [partly(0, 1, 8, 9), whole(0, 10)], 20, 2),
        ("nothing is kept of the group", [partly(), whole(0, 10)], 20, 0),
        ("the group has let go of a block", [partly(7, 8, 9), whole(0, 10), gone(8)], 20, 0),
        ("full attention has let go of one", [partly(2, 3, 4), whole(0, 10), gone(5, group=1)], 20, 5),
        ("a twin stays", [partly(7, 8, 9), whole(0, 10), partly(8), gone(8)], 20, 0),
        ("told before and after the names", [partly(7), whole(0, 10), partly(8, 9)], 20, 10),
        ("a mamba group needs one state", [partly(3, kind="mamba"), whole(0, 10)], 20, 4),
        ("every group must allow it", [partly(4, 5, 6), partly(6, 3, kind="mamba", group=2), whole(0, 10)], 20, 7),
        ("and they may agree nowhere", [partly(4, 5, 6), partly(5, kind="mamba", group=2), whole(0, 10)], 20, 0),
        ("everything was cleared", [partly(7, 8, 9), whole(0, 10), AllBlocksCleared()], 20, 0),
    ],
)  # fmt: skip
def test_how_long_a_prefix_is(why: str, events: Sequence[KVEvent], most: int, blocks: int) -> None:
    engine = Engine().tell(*events)
    assert engine.prefix(most) == blocks, why
    assert engine.ledger.unjudged_groups == frozenset()


def test_a_reported_hit_is_no_second_copy() -> None:
    engine = Engine().tell(partly(7, 8, 9), whole(0, 10), partly(7, 8, 9), gone(9))
    assert engine.prefix() == 0


def test_host_memory_is_not_credited_to_hybrid_models() -> None:
    engine = Engine().tell(partly(2, 3, 4), whole(0, 10))
    engine.tell(BlockStored([EngineHash(105)], None, (), 0, Tier.CPU, None, None, group=1))
    assert engine.index.match(NAMES)[ENGINE] == PrefixMatch(5, 5)


def test_groups_with_blocks_of_another_size_cannot_be_judged() -> None:
    assert Engine().tell(partly(1, size=2 * SIZE), whole(0, 10)).ledger.unjudged_groups == {0}
    assert Engine().tell(partly(1), whole(0, 10), partly(1, size=1)).ledger.unjudged_groups == {0}


@pytest.mark.parametrize("kind", ["chunked_local_attention", "cross_attention", "unknown"])
def test_other_kinds_cannot_be_judged(kind: str) -> None:
    assert Engine().tell(partly(1, kind=kind), whole(0, 10)).ledger.unjudged_groups == {0}


def test_nothing_remains_of_an_engine_that_left() -> None:
    engine = Engine().tell(partly(7, 8, 9), whole(0, 10))
    engine.index.forget(ENGINE)
    engine.ledger = Ledger(SECRET, MODEL)
    assert engine.tell(whole(0, 10)).prefix() == 10


def allowed(held: Sequence[set[int]], needed: Sequence[int], end: int) -> bool:
    """Whether a hit may end there: every group holds its blocks before it."""
    return all(set(range(max(0, end - need), end)) <= blocks for blocks, need in zip(held, needed, strict=True))


@pytest.mark.parametrize("seed", range(200))
def test_the_longest_end_that_every_group_allows_is_found(seed: int) -> None:
    random = Random(seed)
    engine, density = Engine(), random.random()
    held = [{block for block in range(20) if random.random() < density} for _ in range(3)]
    kinds = ["sliding_window", "mamba", "sliding_window"]
    for group, (blocks, kind) in enumerate(zip(held, kinds, strict=True), 2):
        engine.tell(partly(*sorted(blocks), group=group, kind=kind))
    run, most = random.randrange(20), random.randrange(21)
    engine.tell(whole(0, run))
    ends = [end for end in range(1, min(run, most) + 1) if allowed(held, [3, 1, 3], end)]
    assert engine.prefix(most) == max(ends, default=0)


def test_what_a_group_lets_go_of_after_the_engine_was_forgotten_is_no_news() -> None:
    engine = Engine().tell(partly(7, 8, 9), whole(0, 10))
    engine.index.forget(ENGINE)
    assert engine.tell(gone(8)).prefix() == 0
    assert engine.tell(whole(10, 12), gone(7), partly(10, 11, group=2), gone(9)).prefix() == 0
