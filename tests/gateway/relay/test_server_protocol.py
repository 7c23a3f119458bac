"""The client's side: requests as ASGI sees them, answers as they go on the wire."""

import asyncio

import pytest
from served import DEADLINE, GET, Make, Scope, chunks, echo, part, start
from starlette.requests import Request

from gateway.relay.asgi import Receive, Send


@pytest.mark.parametrize("step", [0, 1])
async def test_a_request_is_what_asgi_says_it_is(front: Make, step: int) -> None:
    made = await front(echo)
    answer = await made.say(
        b"POST /v1/a%20b?x=%20&y HTTP/1.1\r\nHost: x\r\nX-Two: 1\r\nx-two: 2\r\nContent-Length: 5\r\n"
        b"Connection: close\r\n\r\nhello",
        step,
    )
    assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
    scope = made.scopes[0]
    assert (scope["type"], scope["method"], scope["http_version"], scope["scheme"]) == ("http", "POST", "1.1", "http")
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/v1/a b", b"/v1/a%20b", b"x=%20&y")
    assert scope["headers"][:3] == [(b"host", b"x"), (b"x-two", b"1"), (b"x-two", b"2")]
    assert scope["client"][0] == scope["server"][0] == "127.0.0.1"
    assert scope["state"] == {"made": "once"}


@pytest.mark.parametrize("target", [b"http://example.org/a?b", b"http://example.org:80/a?b", b"/a?b"])
async def test_a_target_may_be_absolute(front: Make, target: bytes) -> None:
    made = await front(echo)
    await made.say(b"GET %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % target)
    assert (made.scopes[0]["path"], made.scopes[0]["query_string"]) == ("/a", b"b")


@pytest.mark.parametrize("step", [0, 1])
async def test_a_body_may_come_in_chunks_with_trailers(front: Make, step: int) -> None:
    made = await front(echo)
    answer = await made.say(
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        b"2\r\nhe\r\n3\r\nllo\r\n0\r\nx-sum: 1\r\n\r\n",
        step,
    )
    assert answer.endswith(b"\r\n\r\nhello")
    assert (b"x-sum", b"1") not in made.scopes[0]["headers"]


async def test_an_answer_without_a_length_goes_in_chunks(front: Make) -> None:
    made = await front(chunks)
    answer = await made.say(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head == b"HTTP/1.1 200 OK\r\nx-a: 1\r\ntransfer-encoding: chunked\r\nconnection: close"
    assert body == b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"


async def test_http_1_0_gets_no_chunks_and_is_closed(front: Make) -> None:
    made = await front(chunks)
    assert await made.say(b"GET / HTTP/1.0\r\n\r\n") == b"HTTP/1.1 200 OK\r\nx-a: 1\r\nconnection: close\r\n\r\nhello"


@pytest.mark.parametrize(
    ("why", "method", "status"), [("HEAD", b"HEAD", 200), ("no content", b"GET", 204), ("not modified", b"GET", 304)]
)
async def test_where_no_body_is_allowed_none_is_sent(front: Make, why: str, method: bytes, status: int) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(status, (b"x-a", b"1")))
        await send(part(b"" if status != 200 else b"hello"))

    made = await front(app)
    answer = await made.say(b"%b / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % method)
    assert answer.endswith(b"\r\nx-a: 1\r\nconnection: close\r\n\r\n"), why


async def test_head_and_body_of_a_short_answer_come_together(front: Make) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(200, (b"content-length", b"2")))
        await asyncio.sleep(0.05)
        await send(part(b"ok"))

    reader, writer = await (await front(app)).connect()
    writer.write(GET)
    assert await reader.read(1000) == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def test_an_empty_part_sends_the_head_on_its_own(front: Make) -> None:
    go_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(200, (b"content-length", b"2")))
        await send(part(b"", more=True))
        await go_on.wait()
        await send(part(b"ok"))

    reader, writer = await (await front(app)).connect()
    writer.write(GET)
    assert await reader.read(1000) == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    go_on.set()
    assert await reader.readexactly(2) == b"ok"


async def test_a_connection_is_kept_and_requests_behind_each_other_are_answered_in_order(front: Make) -> None:
    first_may_end = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/0":
            await first_may_end.wait()
        await send(start(200, (b"content-length", b"2")))
        await send(part(scope["path"].encode()))

    made = await front(app)
    reader, writer = await made.connect()
    writer.write(b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % number for number in range(5)))
    await asyncio.sleep(0)
    first_may_end.set()
    for number in range(5):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await reader.readexactly(2) == b"/%d" % number
    assert len(made.state.connections) == 1
    assert made.state.total_requests == 5


async def test_an_idle_connection_is_closed_after_its_time(front: Make) -> None:
    made = await front(echo, keep_alive=0.3)
    reader, writer = await made.connect()
    writer.write(GET)
    await reader.readuntil(b"\r\n\r\n")
    assert await reader.read() == b""


async def test_a_connection_on_which_nothing_comes_is_closed_too(front: Make) -> None:
    made = await front(echo, keep_alive=0.05)
    reader, _ = await made.connect()
    assert await reader.read() == b""


async def test_expect_continue_is_granted_when_the_body_is_wanted(front: Make) -> None:
    made = await front(echo)
    reader, writer = await made.connect()
    writer.write(b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"ok")
    assert await reader.readuntil(b"ok") == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def test_expect_continue_is_not_granted_to_what_is_refused(front: Make) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(413, (b"content-length", b"0")))
        await send(part(b""))

    made = await front(app)
    reader, writer = await made.connect()
    writer.write(b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    answer = await reader.read()  # to the end: what comes next may be the body, or a next request where it was left out
    assert answer == b"HTTP/1.1 413 Request Entity Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


async def test_nothing_behind_a_body_that_is_dropped_is_taken_for_a_request(
    front: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(413, (b"content-length", b"0"), (b"connection", b"close")))
        await send(part(b""))

    made = await front(app)
    for behind in (b"POST /b HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", b"what is no request\r\n"):
        reader, writer = await made.connect()
        writer.write(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 413")
        writer.write(b"12345" + behind)
        writer.close()
        await made.quiet()
    assert [scope["path"] for scope in made.scopes] == ["/a", "/a"]
    assert caplog.text == ""


async def test_an_application_may_go_on_when_its_client_has_left(front: Make, caplog: pytest.LogCaptureFixture) -> None:
    arrived, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        arrived.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        await send(start(200, (b"content-length", b"2")))
        await send(part(b"o", more=True))
        await send(part(b"k"))
        ended.set()

    made = await front(app)
    _, writer = await made.connect()
    writer.write(GET)
    await arrived.wait()
    writer.close()
    await asyncio.wait_for(ended.wait(), DEADLINE)
    assert caplog.text == ""


async def test_a_client_that_leaves_in_its_body_is_no_fault_of_the_application(
    front: Make, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await Request(scope, receive).body()

    made = await front(app)
    _, writer = await made.connect()
    writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n12")
    await asked.wait()
    writer.close()
    await made.quiet()
    assert caplog.text == ""


async def test_an_early_answer_leaves_the_connection_in_step(front: Make) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(200, (b"content-length", b"2")))
        await send(part(scope["path"].encode()))

    made = await front(app)
    reader, writer = await made.connect()
    writer.write(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 500000\r\n\r\n")
    await reader.readuntil(b"/a")
    writer.write(b"x" * 500_000 + b"GET /b HTTP/1.1\r\nhost: x\r\n\r\n")
    await reader.readuntil(b"/b")


async def test_a_body_that_was_held_back_when_the_answer_came_is_read_to_its_end(front: Make) -> None:
    refuse = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/a":
            await refuse.wait()
        await send(start(413, (b"content-length", b"2")))
        await send(part(scope["path"].encode()))

    made = await front(app, keep_alive=3600.0)
    reader, writer = await made.connect()
    writer.write(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 8000000\r\n\r\n" + b"x" * 4_000_000)
    await asyncio.sleep(0.05)
    refuse.set()
    await reader.readuntil(b"/a")
    writer.write(b"x" * 4_000_000 + b"GET /b HTTP/1.1\r\nhost: x\r\n\r\n")
    await asyncio.wait_for(reader.readuntil(b"/b"), DEADLINE)


async def test_a_body_nobody_takes_stays_at_the_client(front: Make) -> None:
    take = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await take.wait()
        await echo(scope, receive, send)

    made = await front(app)
    reader, writer = await made.connect()
    size = 64 * 2**20
    writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size)
    writer.write(b"x" * size)
    left = -1
    while left != writer.transport.get_write_buffer_size():
        left = writer.transport.get_write_buffer_size()
        await asyncio.sleep(0.1)
    assert left > size / 2
    take.set()
    await reader.readuntil(b"\r\n\r\n")
    assert len(await reader.readexactly(size)) == size


async def test_a_client_that_does_not_read_stops_the_application(front: Make) -> None:
    sent = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send(start())
        while sent < 256 * 2**20:
            await send(part(b"x" * 65536, more=True))
            sent += 65536
        await send(part(b""))

    made = await front(app)
    _, writer = await made.connect()
    writer.write(GET)
    before = -1
    while before != sent:
        before = sent
        await asyncio.sleep(0.1)
    assert 0 < sent < 128 * 2**20
    writer.transport.abort()
    await made.quiet()


async def test_shutting_down_lets_an_answer_end_and_closes_the_idle(front: Make) -> None:
    go_on, waiting = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        waiting.set()
        await go_on.wait()
        await echo(scope, receive, send)

    made = await front(app)
    idle, _ = await made.connect()
    busy, writer = await made.connect()
    writer.write(GET)
    await waiting.wait()
    for connection in list(made.state.connections):
        connection.shutdown()
    assert await idle.read() == b""
    go_on.set()
    assert await busy.read() == b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
