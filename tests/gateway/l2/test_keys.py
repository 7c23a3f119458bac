from collections.abc import Sequence

import pytest

from gateway.l2.hashing import Chain, ChunkHash, engine_chain, in_process_chain, server_chain
from gateway.l2.keys import Chunks, Memory, Scheme
from gateway.l2.names import InProcess, Server, Tier
from routing.blocks import block_hashes
from routing.types import BlockHash

SCHEME = Scheme(256, 256, in_process_chain("sha256_cbor", None), InProcess("q"), salted=False)


def counting(chain: Chain) -> tuple[Chain, list[int]]:
    """The chain, and the first token of every stretch that it hashes."""
    hashed: list[int] = []

    def step(parent: ChunkHash, tokens: Sequence[int], salt: str | None) -> ChunkHash:
        hashed.append(tokens[0])
        return chain.step(parent, tokens, salt)

    return Chain(chain.root, step), hashed


def blocks_of(tokens: Sequence[int], size: int = 16) -> list[BlockHash]:
    return block_hashes(tokens, size, BlockHash(7))


def test_only_full_chunks_have_files() -> None:
    chunks = Chunks(SCHEME, Memory(), range(600))
    assert len(chunks) == 2
    assert chunks[0] == ["q@1@0@31375f4bc7c57397@bfloat16.data"]
    with pytest.raises(IndexError):
        chunks[2]


def test_nothing_is_hashed_that_nobody_asked_for() -> None:
    chain, hashed = counting(SCHEME.chain)
    chunks = Chunks(Scheme(256, 256, chain, InProcess("q"), salted=False), Memory(), range(2560))
    assert hashed == []
    chunks.hash(1)
    assert hashed == [0, 256]
    chunks.hash(0)
    assert hashed == [0, 256]


def test_a_prompt_that_goes_on_is_hashed_from_where_it_was_known() -> None:
    chain, hashed = counting(SCHEME.chain)
    scheme, memory = Scheme(256, 256, chain, InProcess("q"), salted=False), Memory()
    first, longer = range(512), range(1024)
    Chunks(scheme, memory, first, blocks_of(first), 16).hash(1)
    hashed.clear()
    again = Chunks(scheme, memory, longer, blocks_of(longer), 16)
    assert [again.hash(at) for at in range(4)] == [Chunks(SCHEME, Memory(), longer).hash(at) for at in range(4)]
    assert hashed == [512, 768]


def test_blocks_that_do_not_divide_a_chunk_are_no_memory() -> None:
    memory = Memory()
    Chunks(SCHEME, memory, range(512), blocks_of(range(512), 96), 96).hash(1)
    assert all(memory.get(block) is None for block in blocks_of(range(512), 96))


def test_a_memory_forgets_what_it_was_told_first() -> None:
    memory = Memory(capacity=4)
    for block in range(1, 7):
        memory.put(BlockHash(block), block * 10)
    assert memory.get(BlockHash(6)) == 60
    assert memory.get(BlockHash(1)) is None


def test_the_servers_salt_is_in_the_name_and_not_in_the_hash() -> None:
    scheme = Scheme(256, 256, server_chain("blake3", None), Server("q"), salted=False)
    plain, salted = Chunks(scheme, Memory(), range(256)), Chunks(scheme, Memory(), range(256), salt="t")
    assert plain.hash(0) == salted.hash(0)
    assert salted[0] == [plain[0][0].replace(".data", "@t.data")]


def test_a_file_of_vllms_tier_is_named_by_its_last_block() -> None:
    chain = engine_chain("sha256_cbor", None)
    one = Scheme(16, 16, chain, Tier("m"), salted=True)
    four = Scheme(64, 16, chain, Tier("m"), salted=True)
    assert Chunks(four, Memory(), range(128)).hash(1) == Chunks(one, Memory(), range(128)).hash(7)
    assert Chunks(four, Memory(), range(64), salt="t").hash(0) != Chunks(four, Memory(), range(64)).hash(0)
