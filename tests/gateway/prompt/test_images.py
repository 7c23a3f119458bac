"""Prompts with images are read up to the first one, and what events tell of them keeps images apart (recorded)."""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from gateway.kv.extra_keys import parse_extra_keys
from gateway.prompt.reader import PromptReader
from gateway.prompt.result import EncodedPrompts
from routing.blocks import block_hashes, extended_block_hashes, root_hash
from routing.types import BlockHash

RECORDED = json.loads((Path(__file__).parent / "vectors" / "images.json").read_text())
BLOCK_SIZE: int = RECORDED["block_size"]
VECTORS: Mapping[str, Mapping[str, Any]] = {vector["why"]: vector for vector in RECORDED["vectors"]}


def root(vector: Mapping[str, Any], adapter: str | None) -> BlockHash:
    return root_hash(b"", "m", BLOCK_SIZE, adapter=adapter, salt=vector["body"].get("cache_salt"))


def told(vector: Mapping[str, Any], adapter: str | None = None) -> Sequence[BlockHash]:
    """The blocks as an event of this prompt tells of them."""
    keys = vector["adapted_extra_keys" if adapter else "extra_keys"]
    salt, extras = parse_extra_keys(keys, adapter=adapter, first=True)
    assert salt == vector["body"].get("cache_salt")
    whole = len(vector["ids"]) // BLOCK_SIZE * BLOCK_SIZE
    return extended_block_hashes(vector["ids"][:whole], BLOCK_SIZE, root(vector, adapter), extras)


@pytest.mark.parametrize("why", VECTORS)
def test_the_ids_before_the_first_image_are_the_engines(why: str, recorded_readers: Mapping[str, PromptReader]) -> None:
    vector = VECTORS[why]
    read = recorded_readers["parts"].read("/v1/chat/completions", vector["body"])
    assert isinstance(read, EncodedPrompts)
    assert read.images_from == vector["image_at"]
    assert list(read.prompts[0]) == vector["ids"][: vector["image_at"]]


@pytest.mark.parametrize("adapter", [None, "mylora"])
@pytest.mark.parametrize("why", VECTORS)
def test_blocks_before_the_first_image_are_found_by_their_tokens(why: str, adapter: str | None) -> None:
    vector = VECTORS[why]
    ours = block_hashes(vector["ids"][: vector["image_at"]], BLOCK_SIZE, root(vector, adapter))
    assert len(ours) == vector["image_at"] // BLOCK_SIZE
    assert told(vector, adapter)[: len(ours)] == ours


def test_two_images_in_the_same_place_share_what_comes_before_them() -> None:
    red, blue = VECTORS["an image behind text"], VECTORS["another image there"]
    assert red["ids"] == blue["ids"]
    shared = red["image_at"] // BLOCK_SIZE
    assert told(red)[:shared] == told(blue)[:shared]
    assert not set(told(red)[shared:]) & set(told(blue)[shared:])


def test_an_image_its_name_its_salt_and_its_adapter_are_four_caches() -> None:
    kinds = (
        told(VECTORS["an image behind text"]),
        told(VECTORS["an image with a name of its own"]),
        told(VECTORS["a salt"]),
        told(VECTORS["an image behind text"], "mylora"),
    )
    for one, other in combinations(kinds, 2):
        assert one[-1] != other[-1]
