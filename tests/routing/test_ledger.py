"""What the events of one engine say it holds."""

from collections.abc import Iterable, Sequence

import pytest

from routing.blocks import block_hashes, extended_block_hashes, root_hash
from routing.events import AllBlocksCleared, BlockExtras, BlockRemoved, BlockStored, KVEvent
from routing.ledger import Change, Drop, Ledger, Put, Wipe
from routing.types import BlockHash, EngineHash, Tier

SECRET, MODEL, SIZE = b"secret", "m", 2
ROOT = root_hash(SECRET, MODEL, SIZE)
GPU, CPU, STORAGE = Tier.GPU, Tier.CPU, Tier.STORAGE
NAMES = block_hashes(range(20), SIZE, ROOT)
"""names of the chain of tokens 0, 1, 2, ...; the engine calls its blocks 100, 101, ..."""


def chain(first: int, end: int) -> list[EngineHash]:
    return [EngineHash(100 + index) for index in range(first, end)]


def store(
    first: int,
    end: int,
    *,
    tier: Tier = GPU,
    hashes: Sequence[EngineHash] | None = None,
    tokens: Sequence[int] | None = None,
    block_size: int = SIZE,
    adapter: str | None = None,
    salt: str | None = None,
    extras: Sequence[BlockExtras | None] = (),
    group: int = 0,
    kind: str = "full_attention",
) -> BlockStored:
    """Blocks `first` to `end` of the chain."""
    return BlockStored(
        hashes=chain(first, end) if hashes is None else hashes,
        parent=None if first == 0 else chain(first - 1, first)[0],
        tokens=range(first * SIZE, end * SIZE) if tokens is None else tokens,
        block_size=block_size,
        tier=tier,
        adapter=adapter,
        salt=salt,
        extras=extras,
        group=group,
        kind=kind,
    )


def offload(first: int, end: int, *, group: int = 0) -> BlockStored:
    """The same blocks in host memory, announced without tokens."""
    return BlockStored(chain(first, end), None, (), 0, CPU, None, None, group=group)


def remove(first: int, end: int, *, tier: Tier = GPU, group: int = 0) -> BlockRemoved:
    return BlockRemoved(chain(first, end), tier, group)


def booked(*events: KVEvent, ledger: Ledger | None = None) -> list[Change]:
    ledger = ledger or Ledger(SECRET, MODEL)
    return [change for event in events for change in ledger.apply(event)]


def held(changes: Iterable[Change]) -> dict[Tier, set[BlockHash]]:
    """What remains after all changes."""
    tiers: dict[Tier, set[BlockHash]] = {GPU: set(), CPU: set()}
    for change in changes:
        match change:
            case Put(tier, blocks):
                tiers[tier] |= set(blocks)
            case Drop(tier, blocks):
                tiers[tier] -= set(blocks)
            case Wipe(wiped):
                for tier in tiers:
                    if wiped in (None, tier):
                        tiers[tier].clear()
    return tiers


def test_blocks_get_the_names_of_their_tokens() -> None:
    assert booked(store(0, 2), store(2, 3)) == [Put(GPU, NAMES[:2]), Put(GPU, NAMES[2:3])]


def test_adapter_salt_and_extras_are_in_the_names() -> None:
    image = [BlockExtras((("img", 1),)), None]
    root = root_hash(SECRET, MODEL, SIZE, adapter="sql", salt="s")
    assert booked(store(0, 2, adapter="sql", salt="s", extras=image), store(2, 3, adapter="sql")) == [
        Put(GPU, extended_block_hashes(range(4), SIZE, root, image)),
        Put(GPU, block_hashes(range(4, 6), SIZE, extended_block_hashes(range(4), SIZE, root, image)[1])),
    ]


def test_twins_leave_one_by_one() -> None:
    assert booked(store(0, 2), store(1, 2), remove(1, 2), remove(1, 2), remove(1, 2)) == [
        Put(GPU, NAMES[:2]),
        Drop(GPU, NAMES[1:2]),
    ]


def test_a_reported_hit_is_no_second_copy() -> None:
    assert booked(store(0, 3), store(0, 2), remove(0, 3)) == [Put(GPU, NAMES[:3]), Drop(GPU, NAMES[:3])]


def test_removing_what_is_not_there_changes_nothing() -> None:
    assert booked(remove(0, 3), store(0, 1), remove(0, 1, tier=CPU), remove(0, 1, group=1)) == [Put(GPU, NAMES[:1])]


def test_a_cleared_gpu_leaves_host_memory_alone() -> None:
    changes = booked(store(0, 2), offload(0, 2), AllBlocksCleared())
    assert changes[-1] == Wipe(GPU)
    assert held(changes) == {GPU: set(), CPU: set(NAMES[:2])}


@pytest.mark.parametrize("offloaded", [offload(0, 3), store(0, 3, tier=CPU)], ids=["placeholders", "with tokens"])
def test_host_memory_speaks_of_blocks_by_their_hashes(offloaded: BlockStored) -> None:
    assert booked(store(0, 3), offloaded, remove(0, 3), remove(1, 3, tier=CPU)) == [
        Put(GPU, NAMES[:3]),
        Put(CPU, NAMES[:3]),
        Drop(GPU, NAMES[:3]),
        Drop(CPU, NAMES[1:3]),
    ]


def test_host_memory_may_speak_first() -> None:
    ledger = Ledger(SECRET, MODEL)
    assert booked(offload(2, 3), offload(0, 2), offload(0, 1), remove(1, 2, tier=CPU), ledger=ledger) == []
    assert ledger.orphans == 2
    assert held(booked(store(0, 3), ledger=ledger)) == {GPU: set(NAMES[:3]), CPU: {NAMES[0], NAMES[2]}}
    assert booked(remove(0, 1, tier=CPU), ledger=ledger) == []
    assert booked(remove(0, 1, tier=CPU), ledger=ledger) == [Drop(CPU, NAMES[:1])]


def test_a_block_offloaded_after_it_left_the_gpu_still_has_its_name() -> None:
    assert booked(store(0, 2), offload(0, 1), remove(1, 2), offload(1, 2))[-1] == Put(CPU, NAMES[1:2])
    assert booked(store(0, 2), offload(0, 1), AllBlocksCleared(), offload(1, 2))[-1] == Put(CPU, NAMES[1:2])


def test_names_of_blocks_gone_long_ago_are_forgotten() -> None:
    ledger = Ledger(SECRET, MODEL, remembered=1)
    booked(store(0, 3), offload(0, 1), remove(2, 3), remove(1, 2), ledger=ledger)
    assert booked(offload(1, 3), ledger=ledger) == [Put(CPU, NAMES[1:2])]
    assert ledger.orphans == 1


def test_an_engine_that_does_not_offload_leaves_no_names_behind() -> None:
    ledger = Ledger(SECRET, MODEL)
    assert booked(store(0, 1), remove(0, 1), store(1, 2), ledger=ledger)[2:] == []
    assert ledger.orphans == 1


def test_what_follows_an_unknown_block_waits_for_it() -> None:
    ledger = Ledger(SECRET, MODEL)
    assert booked(store(3, 4), store(1, 3), remove(2, 3), ledger=ledger) == []
    assert ledger.orphans == 2
    assert held(booked(store(0, 1), ledger=ledger))[GPU] == {NAMES[0], NAMES[1], NAMES[3]}
    assert ledger.orphans == 0
    assert held(booked(store(2, 3), remove(3, 4), ledger=ledger))[GPU] == {NAMES[2]}


def test_a_hit_reported_on_blocks_from_before_names_them_and_is_no_second_copy() -> None:
    ledger = Ledger(SECRET, MODEL)
    booked(store(1, 3), ledger=ledger)
    assert held(booked(store(0, 3), ledger=ledger))[GPU] == set(NAMES[:3])
    assert booked(remove(1, 3), ledger=ledger) == [Drop(GPU, NAMES[1:3])]


def test_too_many_blocks_without_names_are_forgotten() -> None:
    ledger = Ledger(SECRET, MODEL, waiting=3)
    booked(store(1, 4), store(5, 6), ledger=ledger)
    assert ledger.orphans <= 3
    assert held(booked(store(0, 1), ledger=ledger))[GPU] <= set(NAMES[:4])


def test_storage_is_only_counted() -> None:
    ledger = Ledger(SECRET, MODEL)
    assert booked(store(0, 2, tier=STORAGE), remove(0, 2, tier=STORAGE), ledger=ledger) == []
    assert ledger.stored_in_storage == 2


def test_groups_that_are_not_full_attention_are_named_and_change_nothing() -> None:
    ledger = Ledger(SECRET, MODEL)
    window = store(0, 3, hashes=chain(1, 3), group=0, kind="sliding_window")
    assert booked(window, store(0, 3, group=1), remove(1, 3, group=0), ledger=ledger) == [Put(GPU, NAMES[:3])]
    assert ledger.unjudged_groups == {0}


def test_a_group_whose_tokens_do_not_fit_its_hashes_cannot_be_judged() -> None:
    ledger = Ledger(SECRET, MODEL)
    assert booked(store(0, 3, hashes=chain(1, 3)), ledger=ledger) == []
    assert (ledger.unjudged_groups, ledger.unplaced, ledger.block_size) == (frozenset({0}), 2, None)


def test_blocks_of_which_some_lack_their_extras_cannot_be_told_from_others() -> None:
    ledger = Ledger(SECRET, MODEL)
    assert booked(store(0, 1), store(1, 3, extras=[BlockExtras(digest=b"image")]), ledger=ledger) == [
        Put(GPU, NAMES[:1])
    ]
    assert (ledger.unjudged_groups, ledger.unplaced) == (frozenset({0}), 2)


def test_a_block_counts_while_all_full_attention_groups_hold_it() -> None:
    assert booked(store(0, 2), store(0, 2, group=1), remove(1, 2), remove(1, 2, group=1), remove(0, 1, group=1)) == [
        Put(GPU, NAMES[:2]),
        Wipe(GPU),
        Put(GPU, NAMES[:2]),
        Drop(GPU, NAMES[1:2]),
        Drop(GPU, NAMES[:1]),
    ]


def test_the_block_size_is_learned() -> None:
    ledger = Ledger(SECRET, MODEL)
    assert ledger.block_size is None
    booked(store(0, 1, tokens=range(32), block_size=32), ledger=ledger)
    assert ledger.block_size == 32


def test_blocks_of_another_size_mean_another_engine() -> None:
    ledger = Ledger(SECRET, MODEL)
    root = root_hash(SECRET, MODEL, 3)
    assert booked(store(0, 2), offload(0, 1), store(0, 1, tokens=range(3), block_size=3), ledger=ledger)[2:] == [
        Wipe(None),
        Put(GPU, block_hashes(range(3), 3, root)),
    ]
    assert ledger.block_size == 3


def test_a_group_with_blocks_of_another_size_cannot_be_judged() -> None:
    ledger = Ledger(SECRET, MODEL)
    other = store(0, 1, tokens=range(4), block_size=4, group=1)
    assert booked(store(0, 2), other, ledger=ledger) == [Put(GPU, NAMES[:2])]
    assert (ledger.unjudged_groups, ledger.block_size) == (frozenset({1}), SIZE)


def test_a_cleared_ledger_knows_nothing() -> None:
    ledger = Ledger(SECRET, MODEL)
    booked(store(0, 2), offload(3, 4), store(5, 6), ledger=ledger)
    assert ledger.clear() == [Wipe(None)]
    assert ledger.orphans == 0
    assert booked(remove(0, 1), store(2, 3), ledger=ledger) == []
    assert booked(store(0, 1), ledger=ledger) == [Put(GPU, NAMES[:1])]
