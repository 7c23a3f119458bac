"""What sets blocks apart, from keys without tags."""

from typing import Any

import pytest

from gateway.kv.extra_keys import parse_extra_keys
from routing.events import BlockExtras


@pytest.mark.parametrize(
    ("why", "keys", "adapter", "salt", "extras"),
    [
        ("text", [None, None], None, None, ()),
        ("salt", [["s"], None], None, "s", ()),
        ("adapter", [["sql"], ["sql"]], "sql", None, ()),
        ("adapter and salt", [["sql", "s"], ["sql"]], "sql", "s", ()),
        ("a salt named as the adapter", [["sql", "sql"], ["sql"]], "sql", "sql", ()),
        ("image", [[["i", 1]], [["i", -1]]], None, None, [BlockExtras((("i", 1),)), BlockExtras((("i", -1),))]),
        ("image and salt", [[["i", 1], "s"], None], None, "s", [BlockExtras((("i", 1),)), None]),
        ("image up to 0.18", [None, ["i"]], None, None, [None, BlockExtras((("i", 0),))]),
        ("image up to 0.18, salt", [["i", "s"], ["i"]], None, "s", [BlockExtras((("i", 0),))] * 2),
        ("prompt embeddings, salt", [["s", b"d"], [b"e"]], None, "s", [BlockExtras((), b"d"), BlockExtras((), b"e")]),
        ("tokens of lookahead hashing", [[5], [6]], None, None, ()),
    ],
)
def test_keys(why: str, keys: list[Any], adapter: str | None, salt: str | None, extras: list[Any]) -> None:
    assert parse_extra_keys(keys, adapter=adapter, first=True) == (salt, extras), why


def test_only_position_0_has_a_salt() -> None:
    assert parse_extra_keys([["s"]], adapter=None, first=False) == (None, [BlockExtras((("s", 0),))])


def test_an_unknown_key_still_sets_a_block_apart() -> None:
    _, (one,) = parse_extra_keys([[{"a": 1}]], adapter=None, first=True)
    _, (other,) = parse_extra_keys([[{"a": 2}]], adapter=None, first=True)
    assert one != other
    assert one is not None
