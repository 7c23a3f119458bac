"""Payloads of every engine version, and of its relatives, as events."""

from array import array
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gateway.kv.wire import Batch, WireError, decode
from routing.chunks import ChunkStored
from routing.events import AllBlocksCleared, BlockExtras, BlockRemoved, BlockStored
from routing.types import EngineHash, Tier

DIGEST = bytes(range(32))
REDUCED = int.from_bytes(DIGEST[-8:], "big")
ROW: list[Any] = [
    "BlockStored", [7], 5, [1, 2], 2, None, "GPU", "sql", [["sql", ["img", 1]]], 3, "mla_attention", None,
]  # fmt: skip


def batch(*events: object, rank: object = 0) -> Batch:
    return decode(msgspec.msgpack.encode([12.5, events, rank]))


def stored(**fields: object) -> BlockStored:
    """One event in today's layout."""
    event = {"type": "BlockStored", "block_hashes": [7], "parent_block_hash": None, "token_ids": [1, 2],
             "block_size": 2, "lora_id": None, "medium": "GPU", "lora_name": None}  # fmt: skip
    (decoded,) = batch(event | fields).events
    assert isinstance(decoded, BlockStored)
    return decoded


def test_a_map_without_its_defaults() -> None:
    decoded = batch(
        {"type": "BlockStored", "block_hashes": [7], "parent_block_hash": 5, "token_ids": [1, 2], "block_size": 2},
        {"type": "AllBlocksCleared"},
        {"type": "BlockRemoved", "block_hashes": [7], "medium": "CPU", "group_idx": 1},
        rank=3,
    )
    assert decoded == Batch(
        12.5,
        3,
        [
            BlockStored([EngineHash(7)], EngineHash(5), array("I", [1, 2]), 2, Tier.GPU, None, None),
            AllBlocksCleared(),
            BlockRemoved([EngineHash(7)], Tier.CPU, 1),
        ],
        {},
    )


@pytest.mark.parametrize("length", range(5, 13))
def test_rows_of_every_length(length: int) -> None:
    (event,) = batch(ROW[:length]).events
    assert event == BlockStored(
        hashes=[EngineHash(7)],
        parent=EngineHash(5),
        tokens=array("I", [1, 2]),
        block_size=2,
        tier=Tier.GPU,
        adapter="sql" if length > 7 else None,
        salt=None,
        extras=[BlockExtras(images=(("img", 1),))] if length > 8 else (),
        group=3 if length > 9 else 0,
        kind="mla_attention" if length > 10 else "full_attention",
    )


def test_rows_of_removals() -> None:
    decoded = batch(
        ["BlockRemoved", [1]], ["AllBlocksCleared"], ["BlockRemoved", [2], "CPU"], ["BlockRemoved", [3], "CPU", 1]
    )
    assert decoded.events == [
        BlockRemoved([EngineHash(1)], Tier.GPU),
        AllBlocksCleared(),
        BlockRemoved([EngineHash(2)], Tier.CPU),
        BlockRemoved([EngineHash(3)], Tier.CPU, 1),
    ]


def test_neighbouring_removals_are_one_event() -> None:
    gone = [{"type": "BlockRemoved", "block_hashes": [n], "medium": "GPU"} for n in range(3)]
    new = {"type": "BlockStored", "block_hashes": [0], "parent_block_hash": None, "token_ids": [1], "block_size": 1}
    events = batch(*gone, new, gone[0]).events
    assert [event.hashes for event in events if isinstance(event, BlockRemoved)] == [[0, 1, 2], [0]]
    assert isinstance(events[1], BlockStored)


@pytest.mark.parametrize(
    ("why", "hash_", "ours"),
    [
        ("an integer", 7, 7),
        ("the largest integer", 2**64 - 1, 2**64 - 1),
        ("a signed integer", -1, 2**64 - 1),
        ("a whole digest", DIGEST, REDUCED),
        ("a short digest", DIGEST[16:], REDUCED),
    ],
)
def test_hashes(why: str, hash_: object, ours: int) -> None:
    event = stored(block_hashes=[hash_], parent_block_hash=hash_)
    assert (event.hashes, event.parent) == ([ours], ours), why


@pytest.mark.parametrize(("medium", "tier"), [("GPU", Tier.GPU), (None, Tier.GPU), ("STORAGE", Tier.STORAGE)])
def test_media(medium: str | None, tier: Tier) -> None:
    assert stored(medium=medium, group_idx=0).tier is tier


def test_what_is_unknown_is_counted_and_the_rest_read() -> None:
    decoded = batch(
        {"type": "BlockTouched", "block_hashes": [1]},
        ["BlockMoved", 1, 2],
        {"type": "BlockRemoved", "block_hashes": [1], "medium": "TAPE"},
        {"type": "BlockRemoved", "block_hashes": [1], "medium": "GPU", "colour": "red"},
        ["BlockRemoved", [2], "GPU"],
    )
    assert decoded.events == [BlockRemoved([EngineHash(1), EngineHash(2)], Tier.GPU)]
    assert decoded.ignored == {"kind:BlockTouched": 1, "kind:BlockMoved": 1, "medium:TAPE": 1}


@pytest.mark.parametrize(
    ("why", "fields", "hash_", "from_server"),
    [
        ("inside the engine, with a token too many", {"medium": "cpu", "token_ids": [1, 2, 3]}, 7, False),
        ("from the server", {"medium": "CPU", "block_hashes": [DIGEST]}, REDUCED, True),
    ],
)
def test_chunks_of_lmcache(why: str, fields: dict[str, object], hash_: int, from_server: bool) -> None:
    event = {"type": "BlockStored", "block_hashes": [7], "parent_block_hash": 0, "token_ids": [1, 2], "block_size": 2}
    (chunk,) = batch(event | fields).events
    assert chunk == ChunkStored(EngineHash(hash_), EngineHash(0), array("I", [1, 2]), from_server), why


def test_an_offloaded_block_without_tokens_is_kept() -> None:
    event = stored(medium="CPU", token_ids=[], block_size=0, group_idx=0)
    assert (event.tier, list(event.tokens), event.hashes) == (Tier.CPU, [], [7])


def test_an_adapter_without_a_name_has_its_number() -> None:
    assert stored(lora_id=3).adapter == "#3"
    assert stored(lora_id=3, lora_name="sql").adapter == "sql"


def test_pairs_of_tokens_stand_for_their_first() -> None:
    event = stored(token_ids=[[1, 2], [2, 3]])
    assert (list(event.tokens), event.looks_ahead) == ([1, 2], True)
    assert batch(["BlockStored", [7], None, [[1, 2], [2, 3]], 2, None]).events[0] == event
    long = ["BlockStored", [7], None, [[1, 2], [2, 3]], 2, None, "GPU", "sql", [None], 3, "mla_attention", None]
    assert batch(long).events[0] == replace(event, adapter="sql", group=3, kind="mla_attention")


def test_tokens_that_follow_a_block_are_noticed() -> None:
    assert stored(lookahead_token_ids=[[3]]).looks_ahead
    assert not stored(lookahead_token_ids=None).looks_ahead


def test_tensorrts_images_keep_equal_tokens_apart() -> None:
    infos = [{"mm_objects": [{"mm_hash": number, "offsets": [[0, 2]]}]} for number in (1, 2)]
    extras = [stored(block_mm_infos=[info]).extras for info in infos]
    assert extras[0] != extras[1]
    assert stored(block_mm_infos=[None]).extras == ()


@pytest.mark.parametrize("rank", [None, 0])
def test_a_batch_may_lack_its_rank(rank: int | None) -> None:
    event = {"type": "AllBlocksCleared"}
    assert batch(event, rank=rank).rank == rank
    assert decode(msgspec.msgpack.encode([1, [event]])) == Batch(1.0, None, [AllBlocksCleared()], {})


@pytest.mark.parametrize("event", [{"type": "BlockRemoved", "block_hashes": [1]}, ["BlockRemoved", [1]]])
def test_an_event_without_a_batch(event: object) -> None:
    assert decode(msgspec.msgpack.encode(event)).events == [BlockRemoved([EngineHash(1)], Tier.GPU)]


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xc1", id="no msgpack"),
        pytest.param(msgspec.msgpack.encode([1.0, [{"type": "AllBlocksCleared"}], 0])[:-3], id="cut short"),
        pytest.param(msgspec.msgpack.encode(7), id="no batch"),
        pytest.param(msgspec.msgpack.encode([1.0]), id="no events"),
        pytest.param(msgspec.msgpack.encode([1.0, [7], 0]), id="an event that is none"),
        pytest.param(msgspec.msgpack.encode([1.0, [{"type": "BlockRemoved"}], 0]), id="hashes missing"),
        pytest.param(msgspec.msgpack.encode([1.0, [["BlockStored", [1], None, [-1], 1]], 0]), id="token below 0"),
        pytest.param(
            msgspec.msgpack.encode([1.0, [["BlockStored", [1], None, [2**32], 1]], 0]), id="token above 32 bits"
        ),
        pytest.param(b"\x91" * 100_000, id="nested without end"),
    ],
)
def test_what_is_no_batch_is_refused(payload: bytes) -> None:
    with pytest.raises(WireError):
        decode(payload)
