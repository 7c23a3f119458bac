"""Changes one member of a JSON object and leaves every other byte as the client wrote it."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from gateway.errors import BadRequest

_WHITE = b" \t\n\r"
_BETWEEN = _WHITE + b","
_DEPTH = 8
"""Up to here a nested value is passed over in one step. What clients send for a purpose hardly ever goes deeper."""
_MOST_STEPS = 10_000
"""Members with something special about them and deeper brackets, each of which takes microseconds of the event loop."""

# Possessive throughout: nothing is ever given back, so a scan is linear.
_STRING_PATTERN = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SPACE_PATTERN = rb"[ \t\n\r]*+"
_SCALAR_PATTERN = rb'[^\s,\]}"\[{]++'


def _content_pattern(depth: int) -> bytes:
    """What lies between two brackets, with what is nested in it that deep."""
    plain = rb'[^"\[\]{}]*+'
    pattern = plain + rb"(?:%b%b)*+" % (_STRING_PATTERN, plain)
    for _ in range(depth):
        pattern = plain + rb"(?:(?:%b|[\[{]%b[\]}])%b)*+" % (_STRING_PATTERN, pattern, plain)
    return pattern


_CONTENT_PATTERN = _content_pattern(_DEPTH)
_SPACE = re.compile(_SPACE_PATTERN)
_STRING = re.compile(_STRING_PATTERN, re.DOTALL)
_SCALAR = re.compile(_SCALAR_PATTERN)
_TO_BRACKET = re.compile(rb"%b([\[\]{}])" % _CONTENT_PATTERN, re.DOTALL)
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")


@cache
def _others(key: str) -> re.Pattern[bytes]:
    """Members in a row that are not called `key`, and that nothing is special about, with the commas behind them."""
    name, space = b'"(?!%b")[^"\\\\]*+"' % key.encode(), _SPACE_PATTERN
    value = rb"(?:%b|[\[{]%b[\]}]|%b)" % (_STRING_PATTERN, _CONTENT_PATTERN, _SCALAR_PATTERN)
    return re.compile(rb"(?:%b)*+" % (name + space + b":" + space + value + space + b",?" + space), re.DOTALL)


class _Part(NamedTuple):
    """Offsets of a member that is wanted, or of others in a row."""

    wanted: bool
    start: int
    """of the first key"""
    value_start: int
    """of a wanted member's value"""
    value_end: int
    """past the last byte of the last value"""


def set_member(body: bytes, key: str, value: bytes) -> bytes:
    """`body` with `value` (JSON) under `key`, however often and however spelt the key is there, else added as the last.

    body: a JSON object that has been parsed before: of its form only what is looked at is checked.
    key: letters and underscores.

    Raises ValueError if the body is not an object, BadRequest for one that is made to be slow.
    """
    pieces: list[bytes] = []
    copied = 0
    if _may_hold(body, key):
        for part in _outline(body, key):
            if part.wanted:
                pieces += (body[copied : part.value_start], value)
                copied = part.value_end
    if not pieces:
        return _append(body, key, value)
    pieces.append(body[copied:])
    return b"".join(pieces)


def member_value(body: bytes, key: str) -> bytes:
    """The value of the last member called `key`, as it is written. Raises KeyError if there is none.

    Arguments and other errors as in `set_member`.
    """
    for part in reversed(_outline(body, key)):
        if part.wanted:
            return body[part.value_start : part.value_end]
    raise KeyError(key)


def remove_member(body: bytes, key: str) -> bytes:
    """`body` without the members called `key`, each with one of the commas beside it; unchanged if there are none.

    Arguments and errors as in `set_member`.
    """
    if not _may_hold(body, key):
        return body
    parts = _outline(body, key)
    pieces: list[bytes] = []
    copied = 0
    kept = False
    for position, part in enumerate(parts):
        if not part.wanted:
            kept = True
            continue
        if position + 1 < len(parts) and not kept:
            cut, resume = part.start, parts[position + 1].start
        else:
            cut = parts[position - 1].value_end if kept else part.start
            resume = part.value_end
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


def _outline(body: bytes, key: str) -> list[_Part]:
    """The object `body` as members called `key` and what lies between them."""
    at = _skip_space(body, 0)
    if body[at : at + 1] != b"{":
        raise ValueError("the body is not a JSON object")
    parts: list[_Part] = []
    at = _skip_space(body, at + 1)
    if body[at : at + 1] != b"}":
        parts += _Scan(body, key).parts(at)
        at = _skip_space(body, parts[-1].value_end)
    if _skip_space(body, at + 1) != len(body):
        raise ValueError(f"unexpected bytes at {at + 1} after the JSON object")
    return parts


class _Scan:
    """Looks for members of one name."""

    def __init__(self, body: bytes, key: str) -> None:
        self._body = body
        self._key = key
        self._steps = 0

    def parts(self, at: int) -> Iterator[_Part]:
        """From the first key at `at` up to the closing brace."""
        body, others = self._body, _others(self._key)
        while True:
            start = at
            match = others.match(body, start)
            assert match is not None
            at = match.end()
            if at > start:
                yield _Part(False, start, start, start + len(body[start:at].rstrip(_BETWEEN)))
                if body[at : at + 1] == b"}":
                    return
                start = at
            self._step()
            at = _skip_string(body, start)
            wanted = self._is_wanted(body[start:at])
            at = _skip_space(body, at)
            if body[at : at + 1] != b":":
                raise ValueError(f"expected ':' at {at}")
            value_start = _skip_space(body, at + 1)
            value_end = self._skip_value(value_start)
            yield _Part(wanted, start, value_start, value_end)
            at = _skip_space(body, value_end)
            if body[at : at + 1] == b"}":
                return
            if body[at : at + 1] != b",":
                raise ValueError(f"expected ',' or '}}' at {at}")
            at = _skip_space(body, at + 1)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise BadRequest("The request body has too many members, or is nested too deeply too often.")

    def _is_wanted(self, written: bytes) -> bool:
        text = written.decode("utf-8", "replace")
        return bool((json.loads(text, strict=False) if "\\" in text else text[1:-1]) == self._key)

    def _skip_value(self, at: int) -> int:
        body = self._body
        opening = body[at : at + 1]
        if opening == b'"':
            return _skip_string(body, at)
        if opening not in (b"{", b"["):
            match = _SCALAR.match(body, at)
            if match is None:
                raise ValueError(f"expected a value at {at}")
            return match.end()
        depth, at = 1, at + 1
        while depth:
            match = _TO_BRACKET.match(body, at)
            if match is None:
                raise ValueError(f"the value at {at} does not end")
            self._step()
            depth += 1 if match[1] in b"{[" else -1
            at = match.end()
        return at


def _skip_space(body: bytes, at: int) -> int:
    match = _SPACE.match(body, at)
    assert match is not None
    return match.end()


def _skip_string(body: bytes, at: int) -> int:
    match = _STRING.match(body, at)
    if match is None:
        raise ValueError(f"expected a string at {at}")
    return match.end()
