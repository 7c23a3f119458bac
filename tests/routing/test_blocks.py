import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.blocks import block_hashes, extended_block_hashes, repeats, root_hash
from routing.events import BlockExtras
from routing.types import Namespace

ROOT = root_hash(b"", "m", 4)
tokens = st.lists(st.integers(0, 2**32 - 1), max_size=40)


def test_only_full_blocks_have_a_hash() -> None:
    assert len(block_hashes(range(11), 4, ROOT)) == 2
    assert block_hashes(range(3), 4, ROOT) == []


@given(tokens, tokens)
def test_a_longer_prompt_keeps_the_hashes_of_its_prefix(head: list[int], tail: list[int]) -> None:
    short, long = block_hashes(head, 4, ROOT), block_hashes(head + tail, 4, ROOT)
    assert long[: len(short)] == short


def test_what_prompts_of_one_request_repeat_of_each_other_is_counted_in_their_order() -> None:
    four, two = Namespace("m", 4), Namespace("m", 2)
    chains = [
        {space: block_hashes(ids, space.block_size, ROOT) for space in (four, two)}
        for ids in ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8], [9, 9, 9, 9, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8, 9])
    ]
    assert repeats(chains) == [{four: 0, two: 0}, {four: 1, two: 3}, {four: 0, two: 0}, {four: 2, two: 4}]


@given(tokens)
def test_hashing_can_go_on_from_a_parent(ids: list[int]) -> None:
    whole = block_hashes(ids, 4, ROOT)
    for split in range(1, len(whole)):
        assert block_hashes(ids[split * 4 :], 4, whole[split - 1]) == whole[split:]


def test_one_other_token_changes_its_block_and_all_that_follow() -> None:
    before, after = block_hashes(range(16), 4, ROOT), block_hashes([0, 1, 2, 3, 4, 99, *range(6, 16)], 4, ROOT)
    assert before[0] == after[0]
    assert not set(before[1:]) & set(after[1:])


def test_prompts_of_equal_length_are_told_apart() -> None:
    assert block_hashes([1] * 8, 4, ROOT) != block_hashes([2] * 8, 4, ROOT)


def test_model_adapter_salt_block_size_and_secret_each_set_a_chain_apart() -> None:
    roots = [
        root_hash(b"", "m", 4),
        root_hash(b"", "n", 4),
        root_hash(b"", "m", 8),
        root_hash(b"s", "m", 4),
        root_hash(b"", "m", 4, adapter="a"),
        root_hash(b"", "m", 4, adapter="b"),
        root_hash(b"", "m", 4, salt="a"),
        root_hash(b"", "m", 4, salt=""),
        root_hash(b"", "m", 4, adapter="a", salt="b"),
        root_hash(b"", "m", 4, adapter="ab"),
    ]
    assert len(set(roots)) == len(roots)


def test_blocks_without_extras_hash_alike_in_both_forms() -> None:
    assert extended_block_hashes(range(8), 4, ROOT, [None, None]) == block_hashes(range(8), 4, ROOT)


def test_two_images_in_the_same_place_are_told_apart() -> None:
    def of(image: str, offset: int = 0) -> int:
        return extended_block_hashes(range(4), 4, ROOT, [BlockExtras(images=((image, offset),))])[0]

    assert len({of("cat"), of("dog"), of("cat", 1), block_hashes(range(4), 4, ROOT)[0]}) == 4


def test_an_id_that_no_vocabulary_has_is_refused() -> None:
    with pytest.raises(OverflowError):
        block_hashes([2**32] * 4, 4, ROOT)
