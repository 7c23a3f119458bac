"""Changes one member of a JSON object and leaves every other byte as the client wrote it."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_WHITE = b" \t\n\r"
_SPACE = re.compile(rb"[ \t\n\r]*")
# Possessive throughout: nothing is ever given back, so a scan is linear.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]+")
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{}])', re.DOTALL)
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")


class _Member(NamedTuple):
    """Offsets of one member: its key's first byte, and its value from first byte to past the last."""

    key: str
    start: int
    value_start: int
    value_end: int


def set_member(body: bytes, key: str, value: bytes) -> bytes:
    """`body` with `value` (JSON) under `key`, however often and however spelt the key is there, else added as the last.

    body: a JSON object that has been parsed before: of its form only what is looked at is checked.
    key: letters and underscores. Raises ValueError if the body is not an object.
    """
    pieces: list[bytes] = []
    copied = 0
    if _may_hold(body, key):
        for member in _outline(body):
            if member.key == key:
                pieces += (body[copied : member.value_start], value)
                copied = member.value_end
    if not pieces:
        return _append(body, key, value)
    pieces.append(body[copied:])
    return b"".join(pieces)


def member_value(body: bytes, key: str) -> bytes:
    """The value of the last member called `key`, as it is written. Raises KeyError if there is none.

    Arguments and other errors as in `set_member`.
    """
    for found in reversed(_outline(body)):
        if found.key == key:
            return body[found.value_start : found.value_end]
    raise KeyError(key)


def remove_member(body: bytes, key: str) -> bytes:
    """`body` without the members called `key`, each with one of the commas beside it; unchanged if there are none.

    Arguments and errors as in `set_member`.
    """
    if not _may_hold(body, key):
        return body
    members = _outline(body)
    pieces: list[bytes] = []
    copied = 0
    kept = False
    for position, member in enumerate(members):
        if member.key != key:
            kept = True
            continue
        if position + 1 < len(members) and not kept:
            cut, resume = member.start, members[position + 1].start
        else:
            cut = members[position - 1].value_end if kept else member.start
            resume = member.value_end
        pieces.append(body[copied : max(cut, copied)])
        copied = resume
    pieces.append(body[copied:])
    return b"".join(pieces)


def _may_hold(body: bytes, key: str) -> bool:
    """False if no string in `body` can be `key`: a search costs a hundredth of a scan."""
    return json.dumps(key).encode() in body or _ESCAPED_LETTER.search(body) is not None


def _append(body: bytes, key: str, value: bytes) -> bytes:
    closing = body.rfind(b"}")
    last = body[:closing].rstrip(_WHITE)
    if closing < 0 or body[closing + 1 :].strip(_WHITE) or not last:
        raise ValueError("the body is not a JSON object")
    comma = b"" if last.endswith(b"{") else b","
    return b"".join((last, comma, json.dumps(key).encode(), b":", value, body[len(last) :]))


def _outline(body: bytes) -> list[_Member]:
    """The members of the object `body`."""
    at = _skip_space(body, 0)
    if body[at : at + 1] != b"{":
        raise ValueError("the body is not a JSON object")
    members: list[_Member] = []
    at = _skip_space(body, at + 1)
    if body[at : at + 1] != b"}":
        members += _members(body, at)
        at = _skip_space(body, members[-1].value_end)
    if _skip_space(body, at + 1) != len(body):
        raise ValueError(f"unexpected bytes at {at + 1} after the JSON object")
    return members


def _members(body: bytes, at: int) -> Iterator[_Member]:
    """The members from the first key at `at` up to the closing brace."""
    while True:
        start = at
        at = _skip_string(body, start)
        key = json.loads(body[start:at])
        at = _skip_space(body, at)
        if body[at : at + 1] != b":":
            raise ValueError(f"expected ':' at {at}")
        value_start = _skip_space(body, at + 1)
        value_end = _skip_value(body, value_start)
        yield _Member(key, start, value_start, value_end)
        at = _skip_space(body, value_end)
        if body[at : at + 1] == b"}":
            return
        if body[at : at + 1] != b",":
            raise ValueError(f"expected ',' or '}}' at {at}")
        at = _skip_space(body, at + 1)


def _skip_space(body: bytes, at: int) -> int:
    match = _SPACE.match(body, at)
    assert match is not None
    return match.end()


def _skip_string(body: bytes, at: int) -> int:
    match = _STRING.match(body, at)
    if match is None:
        raise ValueError(f"expected a string at {at}")
    return match.end()


def _skip_value(body: bytes, at: int) -> int:
    opening = body[at : at + 1]
    if opening == b'"':
        return _skip_string(body, at)
    if opening not in (b"{", b"["):
        match = _SCALAR.match(body, at)
        if match is None:
            raise ValueError(f"expected a value at {at}")
        return match.end()
    depth = 0
    while True:
        match = _TO_BRACKET.match(body, at)
        if match is None:
            raise ValueError(f"the value at {at} does not end")
        depth += 1 if match[1] in b"{[" else -1
        at = match.end()
        if depth == 0:
            return at
