"""The client's side: what is no request, and what is no answer."""

import asyncio
import json
import logging

import pytest
from served import GET, Make, Scope, echo, part, start

from gateway.relay.asgi import Receive, Send
from gateway.relay.connections import Connections


@pytest.mark.parametrize(
    ("why", "request_"),
    [
        ("not HTTP", b"\x16\x03\x01\x02\x00\x01"),
        ("no such version", b"GET / HTTP/3.7\r\nhost: x\r\n\r\n"),
        ("length and chunks", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"),
        ("chunks and length", b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n"),
        ("two lengths", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n"),
        ("a length that is none", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0x5\r\n\r\n"),
        ("chunked not last", b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked, gzip\r\n\r\n"),
        ("a coding before chunked", b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        ("no host", b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n"),
        ("two hosts", b"GET / HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nHost: b\r\n\r\n"),
        ("a folded header", b"GET / HTTP/1.1\r\nhost: x\r\nx-a: 1\r\n 2\r\n\r\n"),
        ("bare line feeds", b"GET / HTTP/1.1\nhost: x\n\n"),
        ("a space before the colon", b"GET / HTTP/1.1\r\ncontent-length : 5\r\n\r\n"),
        ("a NUL in a header", b"GET / HTTP/1.1\r\nhost: x\r\nx-a: \0\r\n\r\n"),
        ("a bad chunk size", b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5x\r\n"),
        (
            "a chunk longer than it says",
            b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n",
        ),
    ],
)
@pytest.mark.parametrize("step", [0, 1])
async def test_what_is_no_request_is_refused_and_the_connection_closed(
    front: Make, why: str, request_: bytes, step: int
) -> None:
    made = await front(echo)
    answer = await made.say(request_ + GET, step)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n"), why
    assert answer.count(b"HTTP/1.1") == 1, why
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert (set(error), error["code"]) == ({"message", "type", "param", "code"}, "malformed"), why


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x-filler: %b\r\n" % (b"y" * 1000) * (2 * Connections.HEAD_BYTES // 1000),
        b"GET /" + b"y" * (Connections.HEAD_BYTES + 100),
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
        + b"x-filler: %b\r\n" % (b"y" * 1000) * (2 * Connections.HEAD_BYTES // 1000),
    ],
    ids=["headers", "target", "trailers"],
)
async def test_endless_heads_are_refused(front: Make, request_: bytes) -> None:
    answer = await (await front(echo)).say(request_, 4096)
    assert answer.startswith(b"HTTP/1.1 431 ")


async def test_rubbish_behind_a_request_does_not_spoil_its_answer(front: Make) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.02)
        await echo(scope, receive, send)

    answer = await (await front(app)).say(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nok\0\0\0\0")
    assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"


@pytest.mark.parametrize("step", [0, 1])
async def test_an_offer_to_upgrade_is_ignored_and_the_body_still_read(front: Make, step: int) -> None:
    made = await front(echo)
    answer = await made.say(
        b"POST / HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAE\r\n"
        b"content-length: 5\r\n\r\nhello",
        step,
    )
    assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"


async def test_an_offer_to_upgrade_without_a_body_is_ignored(front: Make) -> None:
    answer = await (await front(echo)).say(
        b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    )
    assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


async def test_an_application_that_fails_is_a_500(front: Make, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/late":
            await send(start(200))
        raise KeyError("secret")

    made = await front(app)
    with caplog.at_level(logging.ERROR):
        for path in (b"/early", b"/late"):
            answer = await made.say(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path)
            assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
            assert b"secret" not in answer
    assert len(caplog.records) == 2


async def test_an_answer_that_stops_in_the_middle_is_cut(front: Make) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start())
        await send(part(b"hello", more=True))
        await asyncio.sleep(0.05)

    reader, writer = await (await front(app)).connect()
    writer.write(GET)
    await reader.readuntil(b"hello")
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readuntil(b"0\r\n\r\n")


@pytest.mark.parametrize("body", [b"hell", b"hello!"])
async def test_an_answer_of_another_length_than_it_says_is_not_passed_off_as_one(
    front: Make, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(200, (b"content-length", b"5")))
        await send(part(body))

    answer = await (await front(app)).say(GET)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert "length" in caplog.text


async def test_a_header_with_a_line_break_never_leaves(front: Make, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(200, (b"x-a", b"1\r\nx-b: 2")))

    answer = await (await front(app)).say(GET)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"x-b" not in answer
