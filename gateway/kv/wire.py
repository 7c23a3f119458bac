"""KV-event payloads (msgpack) -> events, for every layout in use.

    batch   [ts, [event, ...], rank or nil]; the rank may be missing
    event   {"type": "BlockStored", ...}     vLLM since 0.24: a map without the fields that have their default
            ["BlockStored", ...]             vLLM up to 0.23, SGLang: 6 to 12 elements, the older the shorter
    hash    an integer (64 bit, from TensorRT-LLM signed), or the whole digest, of which the last 8 bytes count

Other producers send one event without a batch around it. What is newer than this module is not an error: unknown fields
are skipped, unknown kinds and media counted.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.kv.extra_keys import parse_extra_keys
from gateway.kv.layouts import (
    MAPS,
    ROWS,
    Cleared,
    Event,
    Hash,
    MapBatch,
    Removed,
    RowBatch,
    Stored,
    decode_maps,
    decode_rows,
)
from routing.chunks import ChunkStored
from routing.events import AllBlocksCleared, BlockExtras, BlockRemoved, BlockStored, KVEvent
from routing.types import EngineHash, Tier

_LOOKAHEAD = 15
"""where `lookahead_token_ids` is in a row"""
_HASH_MASK = 2**64 - 1
_HASH_BYTES = 8
_TIERS: Mapping[str | None, Tier] = {None: Tier.GPU, "GPU": Tier.GPU, "CPU": Tier.CPU, "STORAGE": Tier.STORAGE}


class WireError(ValueError):
    """A payload is not a batch of KV events."""


class Batch(NamedTuple):
    """What one engine step did to its cache."""

    ts: float
    """the engine's wall clock when it made the batch, seconds since 1970; 0.0 where the producer sends none"""
    rank: int | None
    """data-parallel rank"""
    events: Sequence[KVEvent | ChunkStored]
    """in order; neighbouring removals from one tier and group are one event"""
    ignored: Mapping[str, int]
    """events left out, by reason: `kind:<name>`, `medium:<name>`; neighbouring removals count as one"""


def decode(payload: bytes) -> Batch:
    """Read one message's payload.

    Raises WireError if it can't be read; then nothing of it may be used, because what it removed is unknown.
    """
    batch: MapBatch | RowBatch
    try:
        batch = decode_maps(payload)
    except msgspec.DecodeError:
        try:
            batch = decode_rows(payload)
        except msgspec.DecodeError:
            return _decode_loosely(payload)
    ignored: defaultdict[str, int] = defaultdict(int)
    try:
        return Batch(batch.ts, batch.rank, _events(batch.events, ignored), ignored)
    except OverflowError as exc:
        raise WireError(str(exc)) from exc


def _decode_loosely(payload: bytes) -> Batch:
    """As `decode`, event by event: unknown kinds among known ones, bigrams, events without a batch."""
    ignored: defaultdict[str, int] = defaultdict(int)
    ts, rank = 0.0, None
    try:
        content: Any = msgspec.msgpack.decode(payload)
        match content:
            case {"type": str()} | [str(), *_]:
                items = [content]
            case [float() | int() as ts, [*items], *rest]:
                rank = msgspec.convert(rest[0] if rest else None, int | None)
            case _:
                raise WireError("neither a batch nor an event")
        known = [event for item in items if (event := _known(item, ignored)) is not None]
        return Batch(float(ts), rank, _events(known, ignored), ignored)
    except (msgspec.DecodeError, RecursionError, OverflowError) as exc:
        raise WireError(str(exc)) from exc


def _known(item: Any, ignored: defaultdict[str, int]) -> Event | None:
    match item:
        case {"type": str(kind)}:
            layouts = MAPS
            if _are_pairs(item.get("token_ids")):
                item |= {"token_ids": [pair[0] for pair in item["token_ids"]], "lookahead_token_ids": True}
        case [str(kind), *_]:
            layouts = ROWS
            if kind == "BlockStored" and len(item) > 3 and _are_pairs(item[3]):
                item[3] = [pair[0] for pair in item[3]]
                item += [None] * (_LOOKAHEAD - len(item))
                item[_LOOKAHEAD:] = [True]
        case _:
            raise WireError("an event without a type")
    if kind not in layouts:
        ignored[f"kind:{kind}"] += 1
        return None
    return msgspec.convert(item, layouts[kind])


def _are_pairs(tokens: Any) -> bool:
    """SGLang under EAGLE sends pairs [this token, the next]; the first of each is the text that the block covers."""
    return (
        isinstance(tokens, list) and bool(tokens) and all(isinstance(pair, list) and len(pair) == 2 for pair in tokens)
    )


def _merged(items: Iterable[Event]) -> list[Event]:
    """Neighbouring removals from one place as one: the GPU pool sends an event a block, up to thousands in a batch."""
    merged: list[Event] = []
    hashes: list[Hash] | None = None
    medium = group = None
    for item in items:
        if not isinstance(item, Removed):
            hashes = None
        elif hashes is not None and item.medium == medium and item.group_idx == group:
            hashes += item.block_hashes
            continue
        else:
            hashes, medium, group = item.block_hashes, item.medium, item.group_idx
        merged.append(item)
    return merged


def _events(items: Iterable[Event], ignored: defaultdict[str, int]) -> list[KVEvent | ChunkStored]:
    events: list[KVEvent | ChunkStored] = []
    for item in _merged(items):
        if isinstance(item, Cleared):
            events.append(AllBlocksCleared())
            continue
        tier = _TIERS.get(item.medium)
        if isinstance(item, Stored) and _is_chunk(item):
            events.append(_chunk(item))
        elif tier is None:
            ignored[f"medium:{item.medium}"] += 1
        elif isinstance(item, Removed):
            events.append(BlockRemoved(_hashes(item.block_hashes), tier, item.group_idx or 0))
        else:
            events.append(_stored(item, tier))
    return events


def _is_chunk(item: Stored) -> bool:
    """Whether LMCache made the event: it leaves out what the engine says of every block in host memory with tokens."""
    return (
        item.medium in ("cpu", "CPU")
        and len(item.block_hashes) == 1
        and bool(item.token_ids)
        and item.group_idx is None
        and item.kv_cache_spec_kind is None
    )


def _chunk(item: Stored) -> ChunkStored:
    parent = item.parent_block_hash
    return ChunkStored(
        hash=_hash(item.block_hashes[0]),
        parent=None if parent is None else _hash(parent),
        tokens=_packed(item.token_ids[: item.block_size]),  # inside the engine it sends one token too many
        from_server=item.medium == "CPU",
    )


def _stored(item: Stored, tier: Tier) -> BlockStored:
    parent = item.parent_block_hash
    salt: str | None = None
    extras: Sequence[BlockExtras | None] = ()
    if item.extra_keys is not None and any(item.extra_keys):
        salt, extras = parse_extra_keys(item.extra_keys, adapter=item.lora_name, first=parent is None)
    elif item.block_mm_infos is not None and any(item.block_mm_infos):
        # Nobody's prompts are named so: the engine's identifiers of images are not known here.
        extras = [BlockExtras(digest=repr(info).encode()) if info else None for info in item.block_mm_infos]
    return BlockStored(
        hashes=_hashes(item.block_hashes),
        parent=None if parent is None else _hash(parent),
        tokens=_packed(item.token_ids),
        block_size=item.block_size,
        tier=tier,
        adapter=item.lora_name or (f"#{item.lora_id}" if item.lora_id is not None else None),
        salt=salt,
        extras=extras,
        group=item.group_idx or 0,
        kind=item.kv_cache_spec_kind or "full_attention",
        window=item.kv_cache_spec_sliding_window,
        looks_ahead=item.lookahead_token_ids is not None,
    )


def _packed(tokens: list[int]) -> Sequence[int]:
    """As they are hashed. Raises OverflowError for an id outside [0, 2**32)."""
    return array("I", tokens)


def _hashes(hashes: list[Any]) -> list[EngineHash]:
    try:
        if not hashes or min(hashes) >= 0:
            return hashes
    except TypeError:
        pass
    return [_hash(hash_) for hash_ in hashes]


def _hash(hash_: Hash) -> EngineHash:
    if isinstance(hash_, bytes):
        return EngineHash(int.from_bytes(hash_[-_HASH_BYTES:], "big"))
    return EngineHash(hash_ & _HASH_MASK)
