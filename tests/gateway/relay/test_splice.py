"""A member is changed and every other byte stays."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import BadRequest
from gateway.relay.splice import member_value, remove_member, set_member

KEYS = ("stream", "stream_options", "model")
DEEP = b'[{"stream":' * 30 + b'"}]"' + b"}]" * 30


@pytest.mark.parametrize(
    ("why", "body", "changed"),
    [
        ("absent", b'{"a": 1 }', b'{"a": 1,"stream":true }'),
        ("empty", b" { } ", b' {"stream":true } '),
        ("there", b'{"stream" : false, "a":1}', b'{"stream" : true, "a":1}'),
        ("twice", b'{"stream":null,"a":1,"stream":[1,{"stream":2}]}', b'{"stream":true,"a":1,"stream":true}'),
        ("nested only", b'{"a":{"stream":1}}', b'{"a":{"stream":1},"stream":true}'),
        ("in a text only", b'{"a":"\\"stream\\":1"}', b'{"a":"\\"stream\\":1","stream":true}'),
        ("as a value only", b'{"a":"stream"}', b'{"a":"stream","stream":true}'),
        ("an escaped spelling", b'{"\\u0073tream":0}', b'{"\\u0073tream":true}'),
        ("upper-case escape", b'{"str\\u0065\\u0061m":0}', b'{"str\\u0065\\u0061m":true}'),
        ("brackets in texts", b'{"a":"}{][","stream":"}"}', b'{"a":"}{][","stream":true}'),
        ("an escaped quote", b'{"a":"\\\\\\"","stream":0}', b'{"a":"\\\\\\"","stream":true}'),
        ("white space", b'\n{\t"stream"\r:\n0\t}\n', b'\n{\t"stream"\r:\ntrue\t}\n'),
        ("number spelling", b'{"a":1.0E+2,"stream":-0e1,"b":00}', b'{"a":1.0E+2,"stream":true,"b":00}'),
        ("behind what is deep", b'{"a":%b,"stream":0}' % DEEP, b'{"a":%b,"stream":true}' % DEEP),
        ("as what is deep", b'{"a":1,"stream":%b,"b":2}' % DEEP, b'{"a":1,"stream":true,"b":2}'),
        ("behind a key that is no text", b'{"\xff":1,"stream":0}', b'{"\xff":1,"stream":true}'),
        ("no ASCII", '{"ä":"😀","stream":0}'.encode(), '{"ä":"😀","stream":true}'.encode()),
    ],
)
def test_a_value_is_set(why: str, body: bytes, changed: bytes) -> None:
    assert set_member(body, "stream", b"true") == changed, why


@pytest.mark.parametrize(
    ("why", "body", "changed"),
    [
        ("absent", b'{"a": 1 }', b'{"a": 1 }'),
        ("alone", b'{ "stream":1 }', b"{  }"),
        ("first", b'{ "stream":1 , "a":2}', b'{ "a":2}'),
        ("last", b'{"a":2 , "stream":1 }', b'{"a":2 }'),
        ("between", b'{"a":2, "stream":1, "b":3}', b'{"a":2, "b":3}'),
        ("twice in front", b'{"stream":1,"stream":2,"a":3}', b'{"a":3}'),
        ("twice around", b'{"stream":1,"a":3,"stream":2}', b'{"a":3}'),
        ("only such", b'{"stream":1,"stream":2}', b"{}"),
        ("nested stays", b'{"a":{"stream":1},"stream":2}', b'{"a":{"stream":1}}'),
    ],
)
def test_a_member_is_removed(why: str, body: bytes, changed: bytes) -> None:
    assert remove_member(body, "stream") == changed, why


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'"stream"', b"null", b'{"stream":1', b'{"stream":1}}', b"{", b"}", b'{"a":1']
)
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        set_member(body, "stream", b"true")


SLOW = {"escapes": b'"\\u0061":1,' * 20_000, "depth": b'"a":[%b1],' % (b"[" * 900 + b"]" * 900 + b",") * 20}


@pytest.mark.parametrize("slow", SLOW.values(), ids=SLOW)
def test_what_would_hold_up_everybody_else_is_refused(slow: bytes) -> None:
    with pytest.raises(BadRequest):
        set_member(b"{" + slow + b'"stream":0}', "stream", b"true")


@pytest.mark.parametrize("body", [b'{"stream":1,"a":2,"stream": [3] }', b'{"a":{"stream":1},"str\\u0065am":[3]}'])
def test_a_value_is_read_as_it_is_written_the_last_of_several(body: bytes) -> None:
    assert member_value(body, "stream") == b"[3]"
    with pytest.raises(KeyError):
        member_value(body, "model")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner, max_size=3),
    max_leaves=8,
)
spaces = st.text(alphabet=" \t\n\r", max_size=2)


@st.composite
def objects(draw: st.DrawFn) -> tuple[list[tuple[str, Any]], bytes]:
    """Members, duplicates included, and a spelling of the object they make."""
    members = draw(st.lists(st.tuples(st.sampled_from(KEYS) | st.text(), values), max_size=6))
    written = []
    for key, value in members:
        spelt = json.dumps(key, ensure_ascii=draw(st.booleans()))
        if key in KEYS and draw(st.booleans()):
            spelt = '"' + "".join(f"\\u{ord(letter):04x}" for letter in key) + '"'
        text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
        written.append(draw(spaces) + spelt + draw(spaces) + ":" + draw(spaces) + text + draw(spaces))
    body = draw(spaces) + "{" + (",".join(written) or draw(spaces)) + "}" + draw(spaces)
    return members, body.encode("utf-8", "surrogatepass")


def pairs(body: bytes) -> list[tuple[str, Any]]:
    decoded: list[tuple[str, Any]] = json.loads(body, object_pairs_hook=lambda found: found)
    return decoded


def plain(members: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return pairs(
        b"{" + b",".join(b"%b:%b" % (json.dumps(k).encode(), json.dumps(v).encode()) for k, v in members) + b"}"
    )


@given(made=objects(), key=st.sampled_from(KEYS), value=values)
def test_after_setting_every_reader_sees_the_value_and_all_else_as_before(
    made: tuple[list[tuple[str, Any]], bytes], key: str, value: Any
) -> None:
    members, body = made
    expected = [(k, value if k == key else v) for k, v in members]
    if all(k != key for k, _ in members):
        expected.append((key, value))
    assert pairs(set_member(body, key, json.dumps(value).encode())) == plain(expected)


@given(made=objects(), key=st.sampled_from(KEYS))
def test_after_removing_nobody_sees_the_member_and_all_else_is_as_before(
    made: tuple[list[tuple[str, Any]], bytes], key: str
) -> None:
    members, body = made
    assert pairs(remove_member(body, key)) == plain([(k, v) for k, v in members if k != key])


@given(made=objects(), key=st.sampled_from(KEYS))
def test_setting_and_removing_gives_the_same_bytes_back(made: tuple[list[tuple[str, Any]], bytes], key: str) -> None:
    without = remove_member(made[1], key)
    if pairs(without):
        assert remove_member(set_member(without, key, b"[1]"), key) == without


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\a1 ', max_size=40).map(str.encode))
def test_rubbish_is_refused_or_left_in_one_piece(body: bytes) -> None:
    try:
        changed = set_member(body, "stream", b"true")
    except ValueError:
        return
    assert changed.replace(b"true", b"").replace(b'"stream":', b"")[:1] == body[:1]
