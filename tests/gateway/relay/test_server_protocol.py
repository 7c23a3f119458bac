"""The client's side: requests as ASGI sees them, answers as they go on the wire."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from gateway.errors import BodyTooLarge, ClientGone
from gateway.relay.asgi import Receive, Send
from gateway.relay.connections import Connections
from gateway.relay.exchange import Exchange
from gateway.relay.server import ServerProtocol
from gateway.relay.watch import ClientWatch

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
DEADLINE = 5.0
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@dataclass
class Front:
    """The protocol around an application on a real socket."""

    app: App
    keep_alive: float = 5.0
    state: ServerState = field(default_factory=ServerState)
    scopes: list[Scope] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    server: asyncio.Server | None = None

    async def start(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            self.scopes.append(scope)
            await self.app(scope, receive, send)

        served = self.app if isinstance(self.app, Direct) else app
        config = uvicorn.Config(served, ws="none", lifespan="off", proxy_headers=False, log_config=None)
        config.timeout_keep_alive = self.keep_alive  # type: ignore[assignment]
        config.load()
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(
            lambda: ServerProtocol(config, self.state, {"made": "once"}, loop), "127.0.0.1", 0
        )

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self.server is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.sockets[0].getsockname()[1])
        self.writers.append(writer)
        return reader, writer

    async def say(self, data: bytes, step: int = 0) -> bytes:
        """Send on a new connection, and read until the gateway closes."""
        reader, writer = await self.connect()
        answer = bytearray()

        async def read() -> None:
            with contextlib.suppress(ConnectionError):  # it may close while we are still sending
                while part := await reader.read(65536):
                    answer.extend(part)

        reading = asyncio.create_task(read())
        for at in range(0, len(data), step or len(data)):
            if reading.done() or writer.is_closing():
                break
            writer.write(data[at : at + (step or len(data))])
            if step:
                await asyncio.sleep(0)
        await reading
        return bytes(answer)

    async def quiet(self) -> None:
        end = asyncio.get_running_loop().time() + DEADLINE
        while self.state.connections or self.state.tasks:
            assert asyncio.get_running_loop().time() < end, (self.state.connections, self.state.tasks)
            await asyncio.sleep(0.002)


@pytest.fixture
async def front() -> AsyncIterator[Callable[..., Awaitable[Front]]]:
    fronts: list[Front] = []

    async def make(app: App, **options: Any) -> Front:
        made = Front(app, **options)
        await made.start()
        fronts.append(made)
        return made

    async with asyncio.timeout(4 * DEADLINE):
        yield make
    for made in fronts:
        for writer in made.writers:
            writer.close()
        assert made.server is not None
        made.server.close()
        await made.quiet()


Make = Callable[..., Awaitable[Front]]


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def part(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def body_of(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        assert message["type"] == "http.request"
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await body_of(receive)
    await send(start(200, (b"content-length", b"%d" % len(body))))
    await send(part(body))


async def chunks(scope: Scope, receive: Receive, send: Send) -> None:
    await send(start(200, (b"x-a", b"1")))
    await send(part(b"he", more=True))
    await send(part(b"", more=True))
    await send(part(b"llo", more=True))
    await send(part(b""))


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
    answer = await made.say(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
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
    made = await front(echo, keep_alive=0.05)
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
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 413")


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


@pytest.mark.parametrize(
    ("why", "request_"),
    [
        ("not HTTP", b"\x16\x03\x01\x02\x00\x01"),
        ("no such version", b"GET / HTTP/3.7\r\n\r\n"),
        ("length and chunks", b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"),
        ("chunks and length", b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n"),
        ("two lengths", b"POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n"),
        ("a length that is none", b"POST / HTTP/1.1\r\ncontent-length: 0x5\r\n\r\n"),
        ("chunked not last", b"POST / HTTP/1.1\r\ntransfer-encoding: chunked, gzip\r\n\r\n"),
        ("a folded header", b"GET / HTTP/1.1\r\nx-a: 1\r\n 2\r\n\r\n"),
        ("bare line feeds", b"GET / HTTP/1.1\nhost: x\n\n"),
        ("a space before the colon", b"GET / HTTP/1.1\r\ncontent-length : 5\r\n\r\n"),
        ("a NUL in a header", b"GET / HTTP/1.1\r\nx-a: \0\r\n\r\n"),
        ("a bad chunk size", b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5x\r\n"),
        ("a chunk longer than it says", b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n"),
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


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n" + b"x-filler: %b\r\n" % (b"y" * 1000) * (2 * Connections.HEAD_BYTES // 1000),
        b"GET /" + b"y" * (Connections.HEAD_BYTES + 100),
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
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
    answer = await (await front(echo)).say(b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
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


@dataclass
class Direct:
    """An application that takes exchanges as they are, but for `/asgi`."""

    work: Callable[[Exchange], Awaitable[None]]
    asgi: App = echo

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.asgi(scope, receive, send)

    async def answer(self, exchange: Exchange, asgi: Callable[[Exchange], Awaitable[None]]) -> None:
        await (asgi(exchange) if exchange.path == "/asgi" else self.work(exchange))


async def test_a_hang_up_is_seen_by_receive_and_by_a_watch(front: Make) -> None:
    seen, waiting = [], asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        waiting.set()
        seen.append((await receive())["type"])

    async def work(exchange: Exchange) -> None:
        try:
            with ClientWatch(exchange):
                waiting.set()
                await asyncio.Event().wait()
        except ClientGone:
            seen.append("gone")

    made = await front(Direct(work, app))
    for path in (b"/asgi", b"/watch"):
        waiting.clear()
        _, writer = await made.connect()
        writer.write(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path)
        await waiting.wait()
        writer.transport.abort()
        await made.quiet()
    assert seen == ["http.disconnect", "gone"]


async def test_the_end_of_an_answer_is_no_hang_up(front: Make) -> None:
    gone = []

    async def work(exchange: Exchange) -> None:
        watch = ClientWatch(exchange)
        exchange.start(200, [(b"content-length", b"0")])
        exchange.write(b"", more=False)
        await asyncio.sleep(0)
        gone.append(watch.gone)

    made = await front(Direct(work))
    await made.say(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
    await made.quiet()
    assert gone == [False]


@pytest.mark.parametrize("step", [0, 1])
async def test_a_body_is_read_to_its_end_or_to_the_limit(front: Make, step: int) -> None:
    async def work(exchange: Exchange) -> None:
        try:
            body = await exchange.body(5)
        except BodyTooLarge:
            body = b"too large"
        exchange.keep_alive = False
        exchange.start(200, [(b"content-length", b"%d" % len(body))])
        exchange.write(body, more=False)

    made = await front(Direct(work))
    head = b"POST / HTTP/1.1\r\nhost: x\r\n"
    assert (await made.say(head + b"content-length: 5\r\n\r\nhello", step)).endswith(b"\r\n\r\nhello")
    assert (await made.say(head + b"content-length: 6\r\n\r\nhello!", step)).endswith(b"too large")
    chunked = head + b"transfer-encoding: chunked\r\n\r\n3\r\nhel\r\n3\r\nlo!\r\n0\r\n\r\n"
    assert (await made.say(chunked, step)).endswith(b"too large")
    assert (await made.say(chunked.replace(b"3\r\nlo!", b"2\r\nlo"), step)).endswith(b"\r\n\r\nhello")


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
