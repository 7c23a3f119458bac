"""The layouts of KV-event payloads, as msgspec types. Fields that one does not have keep their default."""

from collections.abc import Mapping
from typing import Any

import msgspec

Hash = int | bytes


class Stored(msgspec.Struct, tag="BlockStored", gc=False):
    block_hashes: list[Hash]
    parent_block_hash: Hash | None = None
    token_ids: list[int] = []
    block_size: int = 0
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    ownership: str | None = None
    session_id: str | None = None
    lookahead_token_ids: Any = None
    block_mm_infos: list[Any] | None = None
    """TensorRT-LLM's: what besides its tokens each block holds"""


class Removed(msgspec.Struct, tag="BlockRemoved", gc=False):
    block_hashes: list[Hash]
    medium: str | None = None
    group_idx: int | None = None


class Cleared(msgspec.Struct, tag="AllBlocksCleared", gc=False):
    pass


class StoredRow(Stored, tag="BlockStored", array_like=True, gc=False):
    pass


class RemovedRow(Removed, tag="BlockRemoved", array_like=True, gc=False):
    pass


class ClearedRow(Cleared, tag="AllBlocksCleared", array_like=True, gc=False):
    pass


class MapBatch(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[Stored | Removed | Cleared]
    rank: int | None = None


class RowBatch(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[StoredRow | RemovedRow | ClearedRow]
    rank: int | None = None


Event = Stored | Removed | Cleared
MAPS: Mapping[str, type[Event]] = {"BlockStored": Stored, "BlockRemoved": Removed, "AllBlocksCleared": Cleared}
ROWS: Mapping[str, type[Event]] = {
    "BlockStored": StoredRow,
    "BlockRemoved": RemovedRow,
    "AllBlocksCleared": ClearedRow,
}
decode_maps = msgspec.msgpack.Decoder(MapBatch).decode
decode_rows = msgspec.msgpack.Decoder(RowBatch).decode
