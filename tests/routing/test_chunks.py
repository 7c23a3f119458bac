"""Chunks in host memory, through the ledger of their engine."""

from collections.abc import Sequence

import pytest

from routing.blocks import block_hashes, root_hash
from routing.changes import Change, Drop, Put
from routing.chunks import ChunkStored
from routing.events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent
from routing.ledger import Ledger
from routing.types import BlockHash, EngineHash, Tier

SIZE, CHUNK = 2, 4
PROMPT = range(100, 112)
GPU, CPU = Tier.GPU, Tier.CPU


def names(tokens: Sequence[int], salt: str | None = None) -> list[BlockHash]:
    return block_hashes(tokens, SIZE, root_hash(b"", "m", SIZE, salt=salt))


def gpu(first: int, end: int, *, tokens: Sequence[int] = PROMPT, salt: str | None = None) -> BlockStored:
    """Blocks `first` to `end` of a prompt; the engine's hash of a block is its last token and its salt."""
    hashes = [EngineHash(hash((tokens[index * SIZE : index * SIZE + SIZE][-1], salt)) % 2**64) for index in range(end)]
    return BlockStored(
        hashes[first:],
        hashes[first - 1] if first else None,
        tokens[first * SIZE : end * SIZE],
        SIZE,
        GPU,
        None,
        salt if first == 0 else None,
    )


def chunk(
    number: int, *, parent: int | None = None, server: bool = False, tokens: Sequence[int] = PROMPT
) -> ChunkStored:
    """Chunk 0, 1 ... of a prompt, under hash 1, 2 ..."""
    return ChunkStored(
        EngineHash(number + 1),
        None if parent is None else EngineHash(parent),
        tokens[number * CHUNK : number * CHUNK + CHUNK],
        server,
    )


def in_host(*events: KVEvent | ChunkStored, host_tokens: int = 100) -> list[Change]:
    ledger = Ledger(b"", "m", host_tokens=host_tokens)
    changes = [change for event in events for change in ledger.apply(event)]
    return [change for change in changes if isinstance(change, Put | Drop) and change.tier is CPU]


def test_chunks_follow_their_parents() -> None:
    assert in_host(gpu(0, 6), chunk(0), chunk(1, parent=1), chunk(2, parent=2)) == [
        Put(CPU, names(PROMPT)[:2]),
        Put(CPU, names(PROMPT)[2:4]),
        Put(CPU, names(PROMPT)[4:6]),
    ]


def test_a_chunk_without_its_parent_is_found_by_its_content() -> None:
    assert in_host(gpu(0, 3), chunk(0), gpu(3, 6), chunk(1, parent=0)) == [
        Put(CPU, names(PROMPT)[:2]),
        Put(CPU, names(PROMPT)[2:4]),
    ]


def test_equal_content_elsewhere_does_not_mislead() -> None:
    other = [7, 8, 9, 10, *PROMPT[4:8]]
    removed = BlockRemoved(gpu(2, 4, tokens=other).hashes, GPU)
    assert in_host(gpu(0, 2), chunk(0), gpu(0, 4, tokens=other), removed, gpu(2, 4), chunk(1, parent=0))[1:] == [
        Put(CPU, names(PROMPT)[2:4])
    ]


def test_a_chunk_of_unknown_place_counts_for_nothing() -> None:
    assert in_host(gpu(0, 2), chunk(0), chunk(1, parent=0))[1:] == []


@pytest.mark.parametrize("tokens", [PROMPT[:3], PROMPT[:0]], ids=["not whole blocks", "none"])
def test_a_chunk_that_is_not_whole_blocks_counts_for_nothing(tokens: Sequence[int]) -> None:
    assert in_host(gpu(0, 2), ChunkStored(EngineHash(1), None, tokens, False)) == []


def test_inside_the_engine_a_chunk_serves_prompts_without_salt_too() -> None:
    assert in_host(gpu(0, 2, salt="s"), chunk(0)) == [Put(CPU, names(PROMPT)[:2])]


def test_the_server_keeps_salts_apart() -> None:
    assert in_host(gpu(0, 4, salt="s"), chunk(0, server=True), chunk(1, parent=1, server=True)) == [
        Put(CPU, names(PROMPT, salt="s")[:2]),
        Put(CPU, names(PROMPT, salt="s")[2:4]),
    ]


def test_the_server_announces_removals() -> None:
    gone = BlockRemoved([EngineHash(1)], CPU)
    assert in_host(gpu(0, 2), chunk(0, server=True), AllBlocksCleared(), gone, gone, host_tokens=0) == [
        Put(CPU, names(PROMPT)[:2]),
        Drop(CPU, names(PROMPT)[:2]),
    ]


def test_one_chunk_under_two_salts_is_one_to_remove() -> None:
    changes = in_host(
        gpu(0, 2),
        chunk(0, server=True),
        BlockRemoved(gpu(0, 2).hashes, GPU),
        gpu(0, 2, salt="s"),
        chunk(0, server=True),
        BlockRemoved([EngineHash(1)], CPU),
    )
    assert changes[-1] == Drop(CPU, [*names(PROMPT)[:2], *names(PROMPT, salt="s")[:2]])


def test_without_removals_the_oldest_chunks_make_room() -> None:
    again = chunk(0)
    assert in_host(gpu(0, 6), chunk(0), chunk(1, parent=1), again, chunk(2, parent=2), host_tokens=2 * CHUNK)[2:] == [
        Drop(CPU, names(PROMPT)[2:4]),
        Put(CPU, names(PROMPT)[4:6]),
    ]


def test_without_removals_and_without_a_known_capacity_nothing_counts() -> None:
    assert in_host(gpu(0, 2), chunk(0), host_tokens=0) == []
