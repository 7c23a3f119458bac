from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.replica.kv_events import AllBlocksCleared, BlockRemoved, KVEvent
from loadtest.replica.pool import Block, BlockPool


def named(pool: BlockPool, *names: int) -> list[Block]:
    """Take blocks and give them these names."""
    blocks = pool.take(len(names))
    for block, name in zip(blocks, names, strict=True):
        pool.name(block, name)
    return blocks


def removed(events: list[KVEvent]) -> list[int]:
    return [name for event in events if isinstance(event, BlockRemoved) for name in event.block_hashes]


def test_one_block_is_the_null_block() -> None:
    pool = BlockPool(5)
    assert (pool.usable, pool.free, pool.usage) == (4, 4, 0)
    with pytest.raises(ValueError, match="5 blocks wanted, 4 free"):
        pool.take(5)
    with pytest.raises(ValueError, match="null block"):
        BlockPool(1)


def test_a_cached_block_is_free_and_yet_found() -> None:
    pool = BlockPool(5)
    blocks = named(pool, 1, 2)
    assert pool.usage == 0.5
    pool.release(blocks)
    assert pool.usage == 0
    assert pool.find(1) is blocks[0]
    assert pool.events == []


def test_reuse_announces_the_removal_and_the_tail_goes_first() -> None:
    pool = BlockPool(5)
    pool.release(named(pool, 1, 2, 3, 4)[::-1])
    pool.take(2)
    assert removed(pool.events) == [4, 3]
    assert pool.find(4) is None
    assert pool.find(1) is not None


def test_blocks_without_a_name_are_reused_before_cached_ones() -> None:
    pool = BlockPool(4)
    cached, unnamed = named(pool, 1), pool.take(2)
    pool.release(cached)
    pool.release(unnamed)
    assert pool.take(2) == unnamed
    assert pool.events == []
    assert pool.take(1) == cached


def test_a_shared_block_is_not_reused_until_the_last_has_let_go() -> None:
    pool = BlockPool(3)
    blocks = named(pool, 1)
    pool.release(blocks)
    pool.share(blocks)
    pool.share(blocks)
    pool.release(blocks)
    assert pool.free == 1
    pool.release(blocks)
    assert pool.free == 2


def test_twins_are_removed_one_by_one_and_the_name_stays_until_the_last() -> None:
    pool = BlockPool(3)
    pool.release(named(pool, 7, 7))
    assert pool.cached_hashes() == {7: 2}
    pool.take(1)
    assert pool.find(7) is not None
    pool.take(1)
    assert pool.find(7) is None
    assert removed(pool.events) == [7, 7]


def test_clearing_waits_until_nothing_is_in_use() -> None:
    pool = BlockPool(3)
    blocks = named(pool, 1)
    assert not pool.clear()
    pool.release(blocks)
    assert pool.clear()
    assert pool.events == [AllBlocksCleared()]
    assert pool.find(1) is None
    pool.take(2)
    assert len(pool.events) == 1


@given(st.lists(st.tuples(st.sampled_from(["take", "release", "find", "clear"]), st.integers(0, 5)), max_size=120))
def test_events_tell_what_is_held(moves: list[tuple[str, int]]) -> None:
    """Whoever adds up names given and removals announced knows what can be found."""
    pool = BlockPool(8)
    held: list[list[Block]] = []
    known: Counter[int] = Counter()
    for move, number in moves:
        if move == "take" and number <= pool.free:
            held.append(named(pool, *range(number)))
            known.update(range(number))
        elif move == "release" and held:
            pool.release(held.pop(number % len(held))[::-1])
        elif move == "find" and (found := pool.find(number)) is not None:
            pool.share([found])
            held.append([found])
        elif move == "clear":
            pool.clear()
        # Removals of the same call as the taking precede the names; counting is order-free between clears.
        for event in pool.events:
            if isinstance(event, AllBlocksCleared):
                known.clear()
            elif isinstance(event, BlockRemoved):
                known.subtract(event.block_hashes)
        pool.events.clear()
        assert +known == Counter(pool.cached_hashes())
        referenced = {block.index for blocks in held for block in blocks}
        assert pool.free == pool.usable - len(referenced)
