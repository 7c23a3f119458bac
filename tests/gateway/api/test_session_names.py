from typing import Any

import pytest

from gateway.api.parse import parse, session


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({b"x-session-id": b"s"}, b'{"user": "u"}', "s"),
        ({b"x-conversation-id": b"c", b"x-user-id": b"u"}, b"{}", "c"),
        ({b"x-session-id": b""}, b'{"user": "u"}', "u"),
        ({}, b'{"session_id": "s", "user": "u"}', "s"),
        ({}, b'{"prompt_cache_key": "k", "user": "u"}', "k"),
        ({}, b'{"metadata": {"user_id": "m"}}', "m"),
        ({}, b'{"metadata": {"user_id": 7}, "user": ["u"], "session_id": ""}', None),
        ({}, b'{"metadata": "m"}', None),
        ({}, b'{"user": "u", "temperature": NaN}', "u"),
        ({}, b"{}", None),
    ],
)
def test_the_narrowest_name_counts(headers: dict[bytes, bytes], body: bytes, expected: Any) -> None:
    assert session(headers, parse(body)) == expected
