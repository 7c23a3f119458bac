"""KV events as values: what an engine says of its cache, whatever the wire form was.

Nobody changes one that is made. Those of which there are thousands a second are not frozen, because a frozen dataclass
takes several times as long to make.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from routing.types import EngineHash, Tier


@dataclass(frozen=True, slots=True)
class BlockExtras:
    """What besides its tokens sets a block apart (vLLM `extra_keys`, parsed)."""

    images: tuple[tuple[str, int], ...] = ()
    """(identifier, offset of the image relative to the block's first token) of each item that overlaps the block"""
    digest: bytes = b""
    """digest of prompt embeddings, empty for tokens"""


@dataclass(slots=True)
class BlockStored:
    """Blocks that follow one another were put into a tier.

    `hashes` and `tokens` speak of the same range unless the tokens are absent (a placeholder, resolved by hashes
    already known) or the group is not a full-attention one.
    """

    hashes: Sequence[EngineHash]
    parent: EngineHash | None
    """the block before the first one; None at position 0"""
    tokens: Sequence[int]
    block_size: int
    """tokens per block; 0 in placeholders"""
    tier: Tier
    adapter: str | None
    """LoRA adapter's name"""
    salt: str | None
    """cache salt; known only where the range starts at position 0"""
    extras: Sequence[BlockExtras | None] = ()
    """one for each hash, or empty"""
    group: int = 0
    """KV-cache group of a hybrid model"""
    kind: str = "full_attention"
    """vLLM's kv_cache_spec_kind"""
    window: int | None = None
    """tokens that a sliding-window group looks back on"""
    looks_ahead: bool = False
    """the block's identity holds tokens after it too, as under EAGLE and MTP"""


@dataclass(slots=True)
class BlockRemoved:
    """Blocks left a tier."""

    hashes: Sequence[EngineHash]
    tier: Tier
    group: int = 0


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """The GPU's prefix cache was emptied; other tiers keep what they have (vLLM's `reset_prefix_cache`)."""


KVEvent = BlockStored | BlockRemoved | AllBlocksCleared
