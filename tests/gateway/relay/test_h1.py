"""One connection: what it takes for an answer, and what it makes of anything else."""

import asyncio

import pytest
from scripted_peer import Harness, Peer, answering, answering_once

from gateway.errors import UpstreamBroken, UpstreamTimeout
from gateway.relay.limits import Limits
from gateway.relay.pool import Pool
from gateway.relay.upstream import UpstreamResponse

HEADERS = ((b"host", b"replica"), (b"content-length", b"2"))
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


async def post(pool: Pool, method: bytes = b"POST") -> UpstreamResponse:
    return await pool.send(method, b"/v1/x", HEADERS, b"{}")


async def read_all(response: UpstreamResponse) -> bytes:
    parts = []
    while data := await response.read():
        parts.append(data)
    return b"".join(parts)


async def read_until_broken(response: UpstreamResponse) -> bytes:
    parts = []
    try:
        while True:
            parts.append(await response.read())
            assert parts[-1], "an end where there is none"
    except UpstreamBroken:
        return b"".join(parts)


async def test_the_body_goes_out_byte_for_byte(harness: Harness) -> None:
    seen = []

    async def behave(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.say(OK)

    body = bytes(range(256)) * 1024
    pool = await harness.pool(behave)
    headers = ((b"host", b"replica"), (b"content-length", b"%d" % len(body)))
    (await pool.send(b"POST", b"/v1/x", headers, body)).close()
    assert seen[0].partition(b"\r\n\r\n")[2] == body


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    ("why", "answer", "status", "body"),
    [
        ("a length", OK, 200, b"hello"),
        ("no body", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, b""),
        ("chunks", CHUNKED + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n", 200, b"hello"),
        ("trailers", CHUNKED + b"5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n", 200, b"hello"),
        ("an early hint", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK, 200, b"hello"),
        ("two continues", b"HTTP/1.1 100 Continue\r\n\r\n" * 2 + OK, 200, b"hello"),
        ("204", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        ("304", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n", 304, b""),
        ("an error", b"HTTP/1.1 429 Too Many\r\ncontent-length: 2\r\n\r\n{}", 429, b"{}"),
    ],
)
async def test_an_answer_is_read_and_the_connection_kept(
    harness: Harness, why: str, answer: bytes, status: int, body: bytes, step: int
) -> None:
    pool = await harness.pool(answering(answer, step=step))
    for _ in range(3):
        response = await post(pool)
        assert (response.status, await read_all(response)) == (status, body), why
        response.close()
    assert (harness.replicas[0].connections, pool.idle, pool.in_use) == (1, 1, 0), why


@pytest.mark.parametrize(
    ("why", "answer"),
    [
        ("the end of the connection is the end of the body", b"HTTP/1.1 200 OK\r\n\r\nhello"),
        ("the replica says so", b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello"),
        ("HTTP/1.0", b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
        ("HTTP/1.0 without a length", b"HTTP/1.0 200 OK\r\n\r\nhello"),
        ("a second answer nobody asked for", OK + OK),
        ("rubbish behind the answer", OK + b"\0\0\0"),
    ],
)
async def test_an_answer_is_read_and_the_connection_closed(harness: Harness, why: str, answer: bytes) -> None:
    pool = await harness.pool(answering_once(answer))
    response = await post(pool)
    assert await read_all(response) == b"hello", why
    assert await response.read() == b"", why
    response.close()
    await harness.until(lambda: pool.open == 0)


async def test_headers_come_raw_and_in_order(harness: Harness) -> None:
    pool = await harness.pool(answering(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: \xe9\r\ncontent-length: 0\r\n\r\n"))
    response = await post(pool)
    assert list(response.headers) == [(b"X-A", b"1"), (b"x-a", b"\xe9"), (b"content-length", b"0")]
    response.close()


async def test_the_answer_to_head_has_no_body_whatever_its_length(harness: Harness) -> None:
    pool = await harness.pool(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"))
    response = await post(pool, b"HEAD")
    assert response.ended
    assert await response.read() == b""
    response.close()


async def test_a_body_is_handed_on_as_it_comes(harness: Harness) -> None:
    go_on = asyncio.Event()

    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED + b"1\r\na\r\n1\r\nb\r\n")
        await go_on.wait()
        await peer.say(b"1\r\nc\r\n0\r\n\r\n")

    response = await post(await harness.pool(behave))
    assert await response.read() == b"ab"
    assert not response.ended
    go_on.set()
    assert await read_all(response) == b"c"
    response.close()


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    ("why", "answer"),
    [
        ("not HTTP at all", b"SSH-2.0-OpenSSH_9.6\r\n"),
        ("TLS to a plain port", b"\x15\x03\x01\x00\x02\x02\x46"),
        ("an upgrade", b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"),
        (
            "length and chunks",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        ),
        ("a coding before chunked", CHUNKED.replace(b"chunked", b"gzip, chunked") + b"5\r\nhello\r\n0\r\n\r\n"),
        ("a coding alone", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello"),
        ("chunked twice", CHUNKED.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n") + b"0\r\n\r\n"),
        ("two lengths", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello"),
        ("a length that is none", b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello"),
        ("a header without a name", b"HTTP/1.1 200 OK\r\n: x\r\n\r\n"),
        ("closed before the head", b"HTTP/1.1 200 OK\r\ncontent-le"),
        ("closed without a word", b""),
        ("only an interim answer", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ("endless headers", b"HTTP/1.1 200 OK\r\n" + b"x-filler: %b\r\n" % (b"y" * 1000) * 700),
    ],
)
async def test_what_is_no_answer_is_broken(harness: Harness, why: str, answer: bytes, step: int) -> None:
    pool = await harness.pool(answering_once(answer, step=997 if step and len(answer) > 10_000 else step))
    with pytest.raises(UpstreamBroken):
        await post(pool)
    await harness.until(lambda: pool.open == 0)


@pytest.mark.parametrize(
    ("why", "answer", "before"),
    [
        ("closed within a length", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", b"hello"),
        ("closed within a chunk", CHUNKED + b"9\r\nhello", b"hello"),
        ("closed before the last chunk", CHUNKED + b"5\r\nhello\r\n", b"hello"),
        ("a chunk size that is none", CHUNKED + b"5\r\nhello\r\nxyz\r\n", b"hello"),
        ("a chunk longer than it says", CHUNKED + b"5\r\nhello!\r\n", b"hello"),
        ("endless trailers", CHUNKED + b"5\r\nhello\r\n0\r\n" + b"x-filler: %b\r\n" % (b"y" * 1000) * 700, b"hello"),
        ("an endless chunk extension", CHUNKED + b"5\r\nhello\r\n5;" + b"x" * 700_000, b"hello"),
    ],
)
async def test_what_came_before_a_break_is_read_before_it(
    harness: Harness, why: str, answer: bytes, before: bytes
) -> None:
    pool = await harness.pool(answering_once(answer, step=8192))
    response = await post(pool)
    assert await read_until_broken(response) == before, why
    response.close()
    await harness.until(lambda: pool.open == 0)


async def silence(peer: Peer) -> None:
    await peer.request()
    await peer.hung_up()


async def silence_after_the_head(peer: Peer) -> None:
    await peer.request()
    await peer.say(CHUNKED + b"5\r\nhello\r\n")
    await peer.hung_up()


async def test_no_answer_in_time_is_a_timeout_and_a_hang_up(harness: Harness) -> None:
    pool = await harness.pool(silence, Limits(response=0.05))
    with pytest.raises(UpstreamTimeout):
        await post(pool)
    assert pool.open == 0
    await harness.until(lambda: harness.replicas[0].playing == 0)


async def test_headers_that_trickle_do_not_stretch_the_limit(harness: Harness) -> None:
    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n")
        while True:
            await peer.say(b"x: y\r\n")
            await asyncio.sleep(0.01)

    pool = await harness.pool(behave, Limits(response=0.1))
    with pytest.raises(UpstreamTimeout):
        await post(pool)


async def test_a_body_that_stops_is_a_timeout(harness: Harness) -> None:
    pool = await harness.pool(silence_after_the_head, Limits(read=0.2))
    response = await post(pool)
    assert await response.read() == b"hello"
    with pytest.raises(UpstreamTimeout):
        await response.read()
    response.close()
    await harness.until(lambda: harness.replicas[0].playing == 0)


async def test_a_slow_reader_is_not_the_replicas_fault(harness: Harness) -> None:
    pool = await harness.pool(answering(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"), Limits(read=0.2, response=0.2))
    response = await post(pool)
    await asyncio.sleep(0.5)
    assert await read_all(response) == b"hello"
    response.close()
    assert pool.idle == 1


async def test_each_read_has_the_whole_limit(harness: Harness) -> None:
    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED)
        for _ in range(10):
            await asyncio.sleep(0.05)
            await peer.say(b"1\r\nx\r\n")
        await peer.say(b"0\r\n\r\n")

    response = await post(await harness.pool(behave, Limits(read=0.3)))
    assert await read_all(response) == b"x" * 10
    response.close()


async def test_a_reader_that_does_not_read_stops_the_replica(harness: Harness) -> None:
    megabyte = b"x" * 2**20
    sent = 0

    async def behave(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (64 * len(megabyte)))
        for _ in range(64):
            await peer.say(megabyte)
            sent += 1
        await peer.hung_up()

    pool = await harness.pool(behave, Limits(buffer_bytes=2**16))
    response = await post(pool)
    before = -1
    while before != sent:  # until nothing has moved for a while
        before = sent
        await asyncio.sleep(0.1)
    assert sent < 32, "most of it is still at the replica"
    assert response.buffered < 2**20
    assert len(await read_all(response)) == 64 * len(megabyte)
    response.close()
    assert pool.idle == 1


async def test_closing_before_the_end_hangs_up(harness: Harness) -> None:
    pool = await harness.pool(silence_after_the_head)
    response = await post(pool)
    response.close()
    response.close()
    assert pool.open == 0
    await harness.until(lambda: harness.replicas[0].playing == 0)
    assert await response.read() == b"hello"
    with pytest.raises(UpstreamBroken):
        await response.read()


async def test_an_answer_to_half_a_request_spoils_the_connection(harness: Harness) -> None:
    async def behave(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.say(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
        await peer.hung_up()

    pool = await harness.pool(behave)
    body = b"x" * (32 * 2**20)
    headers = ((b"host", b"replica"), (b"content-length", b"%d" % len(body)))
    response = await pool.send(b"POST", b"/", headers, body)
    assert (response.status, await response.read()) == (413, b"")
    response.close()
    await harness.until(lambda: pool.open == 0)
