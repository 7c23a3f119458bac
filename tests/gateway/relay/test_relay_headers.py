"""Which headers cross the gateway."""

import pytest

from gateway.relay.headers import NOT_FORWARDED, header, message_head, request_headers, response_headers

AUTHORITY = b"replica:8000"


def test_a_head_is_its_first_line_and_its_headers() -> None:
    head = message_head(b"POST /x?y HTTP/1.1", [(b"host", b"replica"), (b"content-length", b"2")])
    assert head == b"POST /x?y HTTP/1.1\r\nhost: replica\r\ncontent-length: 2\r\n\r\n"


@pytest.mark.parametrize("value", [b"a\r\nx: y", b"a\nx: y", b"a\rx"])
def test_a_header_cannot_smuggle_another_one(value: bytes) -> None:
    with pytest.raises(ValueError, match="line break"):
        message_head(b"GET / HTTP/1.1", [(b"a", value)])


def test_a_request_keeps_what_is_end_to_end() -> None:
    kept = [
        (b"authorization", b"Bearer k"),
        (b"content-type", b"application/json"),
        (b"x-request-id", b"1"),
        (b"traceparent", b"00-ab-cd-01"),
        (b"accept-encoding", b"gzip"),
        (b"x-twice", b"a"),
        (b"x-twice", b"b"),
    ]
    assert request_headers(kept, authority=AUTHORITY, length=7) == [
        (b"host", AUTHORITY),
        *kept,
        (b"content-length", b"7"),
    ]


def test_hop_by_hop_headers_stop_here_and_so_do_those_that_connection_names() -> None:
    headers = [
        (b"connection", b"close, X-Private,te"),
        (b"x-private", b"1"),
        (b"keep-alive", b"timeout=5"),
        (b"te", b"trailers"),
        (b"trailer", b"x-sum"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"h2c"),
        (b"proxy-connection", b"keep-alive"),
        (b"proxy-authorization", b"secret"),
        (b"expect", b"100-continue"),
        (b"x-public", b"1"),
    ]
    assert request_headers(headers, authority=AUTHORITY, length=0) == [
        (b"host", AUTHORITY),
        (b"x-public", b"1"),
        (b"content-length", b"0"),
    ]


def test_host_and_length_are_the_gateways_and_its_own_headers_are_not_for_replicas() -> None:
    headers = [(b"host", b"gateway"), (b"content-length", b"99"), (b"x-kvgate-policy", b"session")]
    assert request_headers(headers, authority=AUTHORITY, length=None) == [(b"host", AUTHORITY)]


def test_what_the_gateway_sets_replaces_what_the_client_sent() -> None:
    dropped = NOT_FORWARDED | {b"x-request-id"}
    given, ours = [(b"x-request-id", b"a"), (b"x-other", b"c")], [(b"x-request-id", b"b")]
    sent = request_headers(given, authority=AUTHORITY, length=None, dropped=dropped, extra=ours)
    assert sent == [(b"host", AUTHORITY), (b"x-other", b"c"), *ours]


def test_an_answer_keeps_its_length_and_loses_what_is_hop_by_hop() -> None:
    headers = [
        (b"Content-Length", b"5"),
        (b"Connection", b"keep-alive, X-Debug"),
        (b"X-Debug", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Set-Cookie", b"a"),
        (b"Set-Cookie", b"b"),
        (b"X-Request-Id", b"the engine's"),
        (b"X-Kvgate-Replica", b"another gateway's"),
        (b"Server", b"uvicorn"),
    ]
    assert response_headers(headers, extra=[(b"x-request-id", b"a")]) == [
        (b"content-length", b"5"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
        (b"server", b"uvicorn"),
        (b"x-request-id", b"a"),
    ]


def test_the_length_of_an_answer_that_will_change_is_dropped() -> None:
    assert response_headers([(b"content-length", b"5"), (b"date", b"d")], keep_length=False) == [(b"date", b"d")]


def test_a_header_is_found_whatever_its_spelling() -> None:
    assert header([(b"X-A", b"1"), (b"x-a", b"2")], b"x-a") == b"1"
    assert header([], b"x-a") == b""
