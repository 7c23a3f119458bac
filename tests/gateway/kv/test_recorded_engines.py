"""Frames of real engines, byte for byte, through wire, feed and ledger."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from kv_books import MODEL, SECRET, Books
from recorded import Message, recorded, recordings

from gateway.kv.wire import decode
from routing.blocks import block_hashes, root_hash
from routing.types import Tier


def copies(messages: Sequence[Message]) -> Counter[tuple[str, int]]:
    """The oracle: what was stored less what was removed, by medium and engine hash, of the full-attention group."""
    held: Counter[tuple[str, int]] = Counter()
    for message in messages:
        for event in msgspec.msgpack.decode(message.payload)[1]:
            places = [(event.get("medium"), hash_) for hash_ in event.get("block_hashes", ())]
            if event["type"] == "AllBlocksCleared":
                held = Counter({place: count for place, count in held.items() if place[0] != "GPU"})
            elif event["type"] == "BlockRemoved":
                held.subtract(place for place in places if held[place])
            elif event.get("kv_cache_spec_kind", "full_attention") == "full_attention":
                at_0 = event["parent_block_hash"] is None
                held.update(place for place in places if not (at_0 and held[place]))
    return +held


def runs(messages: Sequence[Message]) -> list[list[Message]]:
    """Cut where numbers are missing or go back."""
    cut: list[list[Message]] = []
    for message in messages:
        if not cut or message.seq != cut[-1][-1].seq + 1:
            cut.append([])
        cut[-1].append(message)
    return cut


@pytest.mark.parametrize("name", [name for name in recordings() if name != "replay_from_10"])
def test_what_is_held_is_what_was_stored_less_what_was_removed(name: str) -> None:
    messages = recorded(name)
    held = copies(runs(messages)[-1])
    media = Counter(medium for medium, _ in held)
    assert Books().live(messages).blocks() == (media["GPU"], media["CPU"])


@pytest.mark.parametrize(
    ("name", "block_size", "blocks", "unjudged"),
    [
        ("a_block32_sha256cbor", 32, (2, 0), set()),
        ("b_bytes_sha256_lora", 32, (9, 0), set()),
        ("defaults", 128, (26, 0), set()),
        ("dp1", 32, (6, 0), set()),
        ("hybrid_gemma3", 32, (22, 0), set()),
        ("lmcmp_b", 32, (30, 0), set()),
        ("native_tier_a_placeholder", 32, (20, 20), set()),
        ("native_tier_b", 32, (62, 62), set()),
    ],
)
def test_the_state_after_a_recording(name: str, block_size: int, blocks: tuple[int, int], unjudged: set[int]) -> None:
    books = Books().live(recorded(name))
    assert books.ledger.block_size == block_size
    assert books.blocks() == blocks
    assert books.ledger.unjudged_groups == frozenset(unjudged)
    assert books.ignored == {}
    assert (books.ledger.orphans, books.ledger.unplaced) == (0, 0)


@pytest.mark.parametrize(
    ("name", "host_tokens", "blocks", "unplaced"),
    [
        ("lmc_a", 0, (41, 0), 13),
        ("lmc_a", 10_000, (41, 26), 0),
        ("lmc_a", 256, (41, 8), 0),
        ("lmc_b", 10_000, (95, 72), 0),
    ],
)
def test_chunks_of_lmcache_inside_the_engine(
    name: str, host_tokens: int, blocks: tuple[int, int], unplaced: int
) -> None:
    books = Books(host_tokens=host_tokens).live(recorded(name))
    assert (books.blocks(), books.ledger.unplaced) == (blocks, unplaced)


def test_every_step_of_a_run_holds_what_the_engine_holds() -> None:
    run = runs(recorded("a_block32_sha256cbor"))[0]
    books = Books()
    for end in range(1, len(run) + 1):
        books.live(run[end - 1 : end])
        assert books.blocks() == (len(copies(run[:end])), 0)
    assert len(run) == 21


def test_a_replay_is_booked_like_the_live_stream() -> None:
    live = [message for message in recorded("a_block32_sha256cbor") if 10 <= message.seq <= 13]
    books = Books(replayable=True)
    *messages, end = recorded("replay_from_10")
    for message in messages:
        books.perform(books.feed.replayed(message.seq, message.payload, 0.0))
    books.perform(books.feed.replay_ended(0.0))
    assert (end.seq, end.payload) == (-1, b"")
    assert {len(message.frames) for message in messages} == {4}
    assert [message.payload for message in messages] == [message.payload for message in live]
    assert books.held == Books().live(live).held


def test_two_engines_give_the_same_prompt_the_same_names() -> None:
    a, b = Books(), Books()
    a.live([message for message in recorded("a_block32_sha256cbor") if message.seq == 14])
    b.live(recorded("b_block32_sha256cbor"))
    assert a.held == b.held
    assert b.blocks() == (3, 0)


def test_adapter_and_salt_keep_equal_tokens_apart() -> None:
    events: list[Any] = [msgspec.msgpack.decode(m.payload)[1][0] for m in recorded("b_bytes_sha256_lora")]
    tokens = events[0]["token_ids"]
    assert [event["token_ids"] for event in events] == [tokens] * 3
    expected = [
        block_hashes(tokens, 32, root_hash(SECRET, MODEL, 32, adapter=adapter, salt=salt))
        for adapter, salt in [(None, None), ("mylora", None), ("mylora", "s1")]
    ]
    assert Books().live(recorded("b_bytes_sha256_lora")).held[Tier.GPU] == {
        name for names in expected for name in names
    }


def test_a_hybrid_models_prefix_is_what_its_sliding_windows_allow() -> None:
    """Two prompts began alike for 300 tokens, and the engine found nothing of the first for the second."""
    first, *more = recorded("hybrid_gemma3")[:3]
    books = Books().live([first])
    tokens = msgspec.msgpack.decode(first.payload)[1][-1]["token_ids"]
    names = block_hashes(tokens, 32, root_hash(SECRET, MODEL, 32))
    assert (len(names), books.prefix(names, 15).l0, books.prefix(names, 14).l0) == (15, 15, 0)
    assert books.prefix(names[: 300 // 32]).l0 == 0
    books.live(more)
    assert books.prefix(names[: 300 // 32]).l0 == 9, "now it has kept the windows where the two part"
    assert books.ledger.windowed_groups == {0, 1, 2}


def test_each_rank_says_which_it_is() -> None:
    assert [decode(recorded(name)[0].payload).rank for name in ("dp0", "dp1")] == [0, 1]
