"""Block hashes of prompts: what a prompt has in common with one seen before is not hashed block by block again."""

import sys
from collections.abc import Sequence

from xxhash import xxh3_128_digest

from gateway.prompt.recent import Recent
from routing.blocks import TOKEN_BYTES, packed_hashes, token_bytes
from routing.types import BlockHash

STRETCH = 128
"""blocks that are remembered together"""
CHAIN_BYTES = 32 << 20
_HASH_BYTES = sys.getsizeof(2**64 - 1)


class Chains:
    """Hashes prompts, and remembers the stretches used last. Thread-safe.

    A stretch is known by a digest of its tokens, seeded with the block before it. The digest is twice as long as a
    block's hash: what has the same one has the same hashes.
    """

    def __init__(self, max_bytes: int = CHAIN_BYTES) -> None:
        """max_bytes: of the hashes kept."""
        self._known: Recent[bytes, Sequence[BlockHash]] = Recent(max_bytes)

    def hashes(self, tokens: Sequence[int], block_size: int, parent: BlockHash) -> list[BlockHash]:
        """As `routing.blocks.block_hashes`."""
        data = token_bytes(tokens)
        width = STRETCH * block_size * TOKEN_BYTES
        whole = len(data) // width * width
        hashes: list[BlockHash] = []
        for start in range(0, whole, width):
            stretch = self._stretch(data[start : start + width], block_size, parent)
            hashes += stretch
            parent = stretch[-1]
        return hashes + packed_hashes(data[whole:], block_size, parent)

    def _stretch(self, data: memoryview, block_size: int, parent: BlockHash) -> Sequence[BlockHash]:
        key = xxh3_128_digest(data, parent)
        known = self._known.get(key)
        if known is None:
            known = packed_hashes(data, block_size, parent)
            self._known.put(key, known, sys.getsizeof(key) + sys.getsizeof(known) + STRETCH * _HASH_BYTES)
        return known
