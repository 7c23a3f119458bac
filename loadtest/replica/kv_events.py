"""KV events in vLLM's wire layout (0.24 and later: one map per event, fields that equal their default left out)."""

from collections.abc import Sequence

import msgspec

MEDIUM_GPU = "GPU"
FULL_ATTENTION = "full_attention"


class BlockStored(msgspec.Struct, tag=True, omit_defaults=True, gc=False, frozen=True):
    """Blocks that follow one another became findable. Fields without a default are always sent, nil or not."""

    block_hashes: list[int]
    parent_block_hash: int | None
    """the block before the first one; None at position 0"""
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str
    lora_name: str | None
    extra_keys: list[list[str] | None] | None = None
    """one for each hash; what besides its tokens sets the block apart; events of host memory have none"""
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    session_id: str | None = None
    """session of the request that caused it, if it named one"""


class BlockRemoved(msgspec.Struct, tag=True, omit_defaults=True, gc=False, frozen=True):
    """Physical blocks were reused. The GPU pool sends one hash an event."""

    block_hashes: list[int]
    medium: str
    group_idx: int | None = None


class AllBlocksCleared(msgspec.Struct, tag=True, omit_defaults=True, gc=False, frozen=True):
    """The prefix cache was emptied."""


KVEvent = BlockStored | BlockRemoved | AllBlocksCleared


class EventBatch(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """What one engine step announces, in the order it happened."""

    ts: float
    """seconds since 1970"""
    events: Sequence[KVEvent]
    data_parallel_rank: int
