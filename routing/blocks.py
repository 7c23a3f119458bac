"""Token ids -> chained block hashes.

`hash[i] = xxh3_64(token ids of block i as u32 little-endian || extras of block i, seed=hash[i-1])`; the chain starts
at a root that folds in everything that keeps two caches apart. A collision can misroute a request, never leak one: the
engine looks its own hashes up again.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from struct import iter_unpack
from typing import cast

import xxhash

from routing.events import BlockExtras
from routing.types import BlockHash, Chains, Namespace

_xxh3_64 = cast(Callable[..., BlockHash], xxhash.xxh3_64_intdigest)
TOKEN_BYTES = 4


def root_hash(
    secret: bytes, model: str, block_size: int, *, adapter: str | None = None, salt: str | None = None
) -> BlockHash:
    """The parent of block 0.

    secret: the same in every gateway of a deployment, any length.
    model: the base model's canonical name; adapter: the LoRA adapter's name, if any.
    block_size: tokens per block, > 0.
    salt: the request's `cache_salt`; vLLM puts it into block 0 only, which sets the whole chain apart.
    """
    parts = (
        secret,
        model.encode(),
        b"" if adapter is None else b"+" + adapter.encode(),
        block_size.to_bytes(4, "little"),
        b"" if salt is None else b"+" + salt.encode(),
    )
    return BlockHash(_xxh3_64(b"".join(len(part).to_bytes(4, "little") + part for part in parts)))


def token_bytes(tokens: Sequence[int]) -> memoryview:
    """Tokens as u32 little-endian. Raises OverflowError for an id outside [0, 2**32)."""
    packed = array("I", tokens)
    return memoryview(packed).cast("B")


def block_hashes(tokens: Sequence[int], block_size: int, parent: BlockHash) -> list[BlockHash]:
    """Hash the full blocks of `tokens`, each chained to the one before it.

    A trailing partial block has no hash, because vLLM caches full blocks only.

    tokens: n token ids, each in [0, 2**32).
    block_size: tokens per block, > 0.
    Returns n // block_size hashes.
    """
    return packed_hashes(token_bytes(tokens), block_size, parent)


def packed_hashes(data: memoryview, block_size: int, parent: BlockHash) -> list[BlockHash]:
    """As `block_hashes`, of tokens as `token_bytes` gives them."""
    width = block_size * TOKEN_BYTES
    whole = data[: len(data) // width * width]
    digest = _xxh3_64
    link = parent
    return [link := digest(block, link) for (block,) in iter_unpack(f"{width}s", whole)]


def repeats(chains: Sequence[Chains]) -> Sequence[Mapping[Namespace, int]]:
    """For each prompt of one request, how many of its leading blocks one before it has too.

    An engine takes the prompts in order and finds those blocks, whatever it held before.
    """
    seen: dict[Namespace, set[BlockHash]] = defaultdict(set)
    found = []
    for chain in chains:
        again = {}
        for space, blocks in chain.items():
            again[space] = next((at for at, block in enumerate(blocks) if block not in seen[space]), len(blocks))
            seen[space].update(blocks[again[space] :])
        found.append(again)
    return found


def extended_block_hashes(
    tokens: Sequence[int], block_size: int, parent: BlockHash, extras: Sequence[BlockExtras | None]
) -> list[BlockHash]:
    """As `block_hashes`, for blocks of which some carry extras (images, prompt embeddings).

    extras: one for each full block; None where there is none.
    """
    data = token_bytes(tokens)
    width = block_size * TOKEN_BYTES
    hashes: list[BlockHash] = []
    for start, extra in zip(range(0, len(data) - width + 1, width), extras, strict=True):
        block = data[start : start + width]
        parent = BlockHash(_xxh3_64(block if extra is None else bytes(block) + _packed(extra), parent))
        hashes.append(parent)
    return hashes


def _packed(extras: BlockExtras) -> bytes:
    images = b"".join(
        len(name.encode()).to_bytes(4, "little") + name.encode() + offset.to_bytes(8, "little", signed=True)
        for name, offset in extras.images
    )
    return len(extras.images).to_bytes(4, "little") + images + extras.digest
