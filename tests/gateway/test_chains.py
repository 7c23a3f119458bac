"""Prompts that share beginnings, hashed with a memory of them: always as without."""

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.chains import STRETCH, Chains
from routing.blocks import block_hashes, root_hash
from routing.types import BlockHash

SIZES = (1, 4)
ROOTS = [root_hash(b"", model, 1) for model in ("one", "other")]
PARTS = [range(STRETCH), range(7, 3 * STRETCH), range(4 * STRETCH + 3), range(9, 14)]
prompts = st.lists(st.sampled_from(PARTS), max_size=5).map(lambda parts: [token for part in parts for token in part])


@pytest.mark.parametrize("max_bytes", [0, 10_000, 1 << 20])
def test_the_hashes_are_those_of_each_block(max_bytes: int) -> None:
    chains = Chains(max_bytes)

    @given(prompts, st.sampled_from(SIZES), st.sampled_from(ROOTS))
    def check(tokens: Sequence[int], block_size: int, root: BlockHash) -> None:
        for form in (tokens, array("I", tokens)):
            assert chains.hashes(form, block_size, root) == block_hashes(form, block_size, root)

    check()


def test_what_was_given_out_may_be_changed() -> None:
    chains, tokens = Chains(), range(2 * STRETCH)
    chains.hashes(tokens, 1, ROOTS[0]).clear()
    assert chains.hashes(tokens, 1, ROOTS[0]) == block_hashes(tokens, 1, ROOTS[0])


def test_an_id_above_32_bits_is_refused() -> None:
    with pytest.raises(OverflowError):
        Chains().hashes([2**32], 1, ROOTS[0])
