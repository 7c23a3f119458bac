"""The seed of an engine's hashes is read off its events: recorded engines were started with seed 0, or without one."""

from collections.abc import Callable

import pytest
from kv_publisher import Publisher
from recorded import recorded

from gateway.kv.sources import Source
from gateway.seeds import first_block, seed_of


async def block_of(publisher: Publisher, name: str) -> str | None:
    publisher.buffer.extend((message.seq, message.payload) for message in recorded(name))
    block = await first_block(Source(publisher.endpoint, publisher.replay_endpoint, ""), 5.0)
    assert block is not None
    return seed_of(block, "sha256" if name in ("defaults", "b_bytes_sha256_lora") else "sha256_cbor")


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("a_block32_sha256cbor", "0"),
        ("dp1", "0"),
        ("lmcmp_a", "0"),
        ("defaults", "unset"),
        ("b_bytes_sha256_lora", "unset"),
    ],
)
async def test_the_seed_of_a_recorded_engine_is_found(name: str, seed: str, publisher: Publisher) -> None:
    assert await block_of(publisher, name) == seed


async def test_a_seed_that_is_not_tried_is_not_found(publisher: Publisher) -> None:
    publisher.buffer.extend((message.seq, message.payload) for message in recorded("dp0"))
    block = await first_block(Source(publisher.endpoint, publisher.replay_endpoint, ""), 5.0)
    assert block is not None
    assert seed_of(block, "sha256_cbor", [None, 1, 2]) is None
    assert seed_of(block, "xxhash_cbor") is None
    assert seed_of(block, "something new") is None


async def test_an_engine_that_has_stored_nothing_tells_nothing(publisher: Publisher) -> None:
    assert await first_block(Source(publisher.endpoint, publisher.replay_endpoint, ""), 5.0) is None


async def test_an_engine_without_replay_tells_nothing(make_publisher: Callable[..., Publisher]) -> None:
    publisher = make_publisher(replay=False)
    assert await first_block(Source(publisher.endpoint, publisher.replay_endpoint, ""), 5.0) is None
