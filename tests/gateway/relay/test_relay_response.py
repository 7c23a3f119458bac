"""An answer on its way to the client, however it ends."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest
from asgi_side import asgi_client
from scripted_peer import Behaviour, Harness, Peer, answering, answering_once

from gateway.errors import UpstreamBroken, UpstreamTimeout
from gateway.relay.limits import Limits
from gateway.relay.pool import Pool
from gateway.relay.response import WHOLE_BYTES, Ending, Outcome, Relay
from gateway.relay.usage import Usage
from gateway.relay.watch import ClientWatch

JSON = b"HTTP/1.1 %d OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
WORD = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"
ANSWER = b'{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}'


def json_answer(body: bytes, status: int = 200) -> bytes:
    return JSON % (status, len(body), body)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Client:
    """What an ASGI server is to the application, and the client behind it."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.bodies: list[bytes] = []
        self.complete = False
        self.reading = asyncio.Event()
        self.reading.set()
        self._left = asyncio.Event()

    @property
    def body(self) -> bytes:
        return b"".join(self.bodies)

    def hang_up(self) -> None:
        self._left.set()
        self.reading.set()

    async def receive(self) -> MutableMapping[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.reading.wait()
        if message["type"] == "http.response.start":
            assert not self.status
            self.status, self.headers = message["status"], message["headers"]
            return
        assert not self.complete
        self.bodies.append(message["body"])
        if not message["more_body"]:
            self.complete = True
            self._left.set()  # as uvicorn does
            await asyncio.sleep(0)


async def relay_to(client: Client, pool: Pool, **options: Any) -> Outcome:
    upstream = await pool.send(b"POST", b"/", ((b"host", b"x"), (b"content-length", b"0")))
    asgi = await asgi_client(client.receive, client.send)
    with ClientWatch(asgi):
        outcome = await Relay(upstream, asgi, asyncio.get_running_loop().time, **options).run()
    await asgi.drain()
    return outcome


async def test_a_short_answer_goes_in_one_piece(harness: Harness) -> None:
    pool, client = await harness.pool(answering(json_answer(ANSWER), step=3)), Client()
    outcome = await relay_to(client, pool, extra=[(b"x-kvgate-replica", b"a")])
    assert (client.status, client.bodies, client.complete) == (200, [ANSWER], True)
    assert client.headers == [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(ANSWER)),
        (b"x-kvgate-replica", b"a"),
    ]
    assert outcome.ending is Ending.COMPLETE
    assert outcome.usage == Usage(9, 3, 8)
    assert outcome.sent == len(ANSWER)
    assert pool.idle == 1


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_an_error_of_the_replica_passes_as_it_is(harness: Harness, status: int) -> None:
    pool, client = await harness.pool(answering(json_answer(ANSWER, status))), Client()
    outcome = await relay_to(client, pool, hide_usage=True)
    assert (client.status, client.body, outcome.status) == (status, ANSWER, status)
    assert (outcome.ending, outcome.usage) == (Ending.COMPLETE, None)


async def test_a_long_answer_is_not_collected(harness: Harness) -> None:
    body = b"x" * (4 * WHOLE_BYTES)
    pool, client = await harness.pool(answering(json_answer(body))), Client()
    outcome = await relay_to(client, pool)
    assert client.body == body
    assert len(client.bodies) > 1
    assert outcome.ending is Ending.COMPLETE
    assert pool.idle == 1


async def test_an_answer_without_a_body_is_complete(harness: Harness) -> None:
    pool, client = await harness.pool(answering(b"HTTP/1.1 204 No Content\r\n\r\n")), Client()
    outcome = await relay_to(client, pool)
    assert (client.status, client.body, client.complete) == (204, b"", True)
    assert outcome.first_byte_at is None


async def test_a_stream_passes_read_by_read_as_it_is(harness: Harness) -> None:
    client, go_on = Client(), asyncio.Event()

    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(STREAM + chunk(WORD))
        await go_on.wait()
        await peer.say(chunk(WORD[:9]) + chunk(WORD[9:]) + chunk(USAGE) + chunk(DONE) + b"0\r\n\r\n")
        await peer.hung_up()

    pool = await harness.pool(behave)
    times: list[float] = []
    running = asyncio.create_task(relay_to(client, pool, on_first_byte=times.append))
    await harness.until(lambda: bool(client.bodies))
    assert client.bodies == [WORD]
    go_on.set()
    outcome = await running
    assert client.body == WORD + WORD + USAGE + DONE
    assert (outcome.ending, outcome.done, outcome.failed) == (Ending.COMPLETE, True, False)
    assert outcome.usage == Usage(9, 3, None)
    assert times == [outcome.first_byte_at]
    assert pool.idle == 1


async def test_the_headers_of_a_stream_do_not_wait_for_its_first_event(harness: Harness) -> None:
    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(STREAM)
        await peer.hung_up()

    client, pool = Client(), await harness.pool(behave)
    running = asyncio.create_task(relay_to(client, pool))
    await harness.until(lambda: client.status == 200)
    client.hang_up()
    assert (await running).ending is Ending.CLIENT_GONE


@pytest.mark.parametrize("kind", [b"text/event-stream", b"Text/Event-Stream"])
async def test_usage_nobody_asked_for_is_hidden(harness: Harness, kind: bytes) -> None:
    stream = STREAM.replace(b"text/event-stream", kind) + chunk(WORD) + chunk(USAGE + DONE) + b"0\r\n\r\n"
    pool, client = await harness.pool(answering(stream, step=5)), Client()
    outcome = await relay_to(client, pool, hide_usage=True)
    assert client.body == WORD + DONE
    assert outcome.usage == Usage(9, 3, None)
    assert all(client.bodies[1:-1]), "no empty messages after the one that sends the head"


async def test_a_compressed_stream_is_not_looked_into(harness: Harness) -> None:
    head = STREAM.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    pool, client = await harness.pool(answering(head + chunk(b"\x1f\x8b\x00") + b"0\r\n\r\n")), Client()
    outcome = await relay_to(client, pool, hide_usage=True)
    assert client.body == b"\x1f\x8b\x00"
    assert outcome.usage is None


def hanging(start: bytes, said: asyncio.Event | None = None) -> Behaviour:
    """Begins an answer, sets `said`, and waits for the gateway to hang up."""

    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(start)
        if said is not None:
            said.set()
        await peer.hung_up()

    return behave


@pytest.mark.parametrize(
    ("why", "start"),
    [
        ("a stream before its first event", STREAM),
        ("a stream between events", STREAM + chunk(WORD)),
        ("a stream within an event", STREAM + chunk(WORD[:9])),
        ("a short answer", json_answer(ANSWER)[:-9]),
        ("a long answer", (JSON % (200, 4 * WHOLE_BYTES, b"")) + b"x" * (2 * WHOLE_BYTES)),
    ],
)
async def test_a_client_that_leaves_while_more_is_to_come_ends_the_work(
    harness: Harness, why: str, start: bytes
) -> None:
    said, client = asyncio.Event(), Client()
    pool = await harness.pool(hanging(start, said))
    running = asyncio.create_task(relay_to(client, pool))
    await said.wait()
    client.hang_up()
    outcome = await running
    assert outcome.ending is Ending.CLIENT_GONE, why
    assert pool.open == 0, why
    await harness.until(lambda: harness.replicas[0].playing == 0)


async def test_a_client_that_leaves_while_it_does_not_read_ends_the_work(harness: Harness) -> None:
    said, client = asyncio.Event(), Client()
    pool = await harness.pool(hanging(STREAM + chunk(WORD), said))
    client.reading.clear()
    running = asyncio.create_task(relay_to(client, pool))
    await said.wait()
    client.hang_up()
    assert (await running).ending is Ending.CLIENT_GONE
    assert pool.open == 0


async def test_a_cancelled_relay_closes_its_upstream_and_says_so_in_its_stream(harness: Harness) -> None:
    pool, client = await harness.pool(hanging(STREAM + chunk(WORD))), Client()
    running = asyncio.create_task(relay_to(client, pool))
    await harness.until(lambda: bool(client.bodies))
    running.cancel()
    assert (await running).ending is Ending.GATEWAY_STOPPED
    assert json.loads(client.bodies[-1].removeprefix(b"data: "))["error"]["code"] == 503
    assert (client.complete, pool.open) == (True, 0)


async def test_a_cancelled_relay_of_which_nothing_was_sent_is_cancelled(harness: Harness) -> None:
    said = asyncio.Event()
    pool, client = await harness.pool(hanging(json_answer(ANSWER)[:-1], said)), Client()
    running = asyncio.create_task(relay_to(client, pool))
    await said.wait()
    await harness.until(lambda: pool.in_use == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (client.status, pool.open) == (0, 0)
    client.hang_up()


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize(
    ("why", "sent", "shown", "hidden"),
    [
        ("before the first event", b"", b"", b""),
        ("between events", WORD, WORD, WORD),
        ("within an event", WORD + WORD[:9], WORD + WORD[:9] + b"\n\n", WORD),
        ("after usage", WORD + USAGE, WORD + USAGE, WORD),
    ],
)
async def test_a_stream_that_breaks_off_ends_with_an_error_and_not_with_done(
    harness: Harness, why: str, sent: bytes, shown: bytes, hidden: bytes, hide: bool
) -> None:
    pool, client = await harness.pool(answering_once(STREAM + (chunk(sent) if sent else b""))), Client()
    outcome = await relay_to(client, pool, hide_usage=hide)
    before, _, error = client.body.rpartition(b"data: ")
    assert before == (hidden if hide else shown), why
    assert json.loads(error)["error"] == {
        "message": "The replica's answer broke off.",
        "type": "upstream_error",
        "param": None,
        "code": 502,
    }
    assert client.complete
    assert (outcome.ending, outcome.done) == (Ending.UPSTREAM_BROKEN, False)
    assert b"[DONE]" not in client.body
    await harness.until(lambda: pool.open == 0)


async def test_a_stream_that_stops_ends_with_a_timeout(harness: Harness) -> None:
    pool, client = await harness.pool(hanging(STREAM + chunk(WORD)), Limits(read=0.2)), Client()
    outcome = await relay_to(client, pool)
    assert json.loads(client.body.rpartition(b"data: ")[2])["error"]["code"] == 504
    assert outcome.ending is Ending.UPSTREAM_TIMEOUT
    assert pool.open == 0


async def test_a_short_answer_that_breaks_off_can_still_be_another_answer(harness: Harness) -> None:
    pool, client = await harness.pool(answering_once(json_answer(ANSWER)[:-9])), Client()
    with pytest.raises(UpstreamBroken):
        await relay_to(client, pool)
    assert not client.status
    await harness.until(lambda: pool.open == 0)
    client.hang_up()


async def test_a_short_answer_that_stops_can_still_be_another_answer(harness: Harness) -> None:
    pool, client = await harness.pool(hanging(json_answer(ANSWER)[:-9]), Limits(read=0.2)), Client()
    with pytest.raises(UpstreamTimeout):
        await relay_to(client, pool)
    assert not client.status
    client.hang_up()


async def test_a_long_answer_that_breaks_off_stays_incomplete(harness: Harness) -> None:
    body = b"x" * (2 * WHOLE_BYTES)
    pool, client = await harness.pool(answering_once(JSON % (200, 4 * WHOLE_BYTES, body))), Client()
    outcome = await relay_to(client, pool)
    assert (outcome.ending, outcome.sent) == (Ending.UPSTREAM_BROKEN, len(client.body))
    assert not client.complete
    client.hang_up()


async def test_a_slow_client_does_not_make_memory_grow(harness: Harness) -> None:
    sent = 0

    async def behave(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.say(STREAM)
        while True:
            await peer.say(chunk(WORD * 1000))
            sent += len(WORD) * 1000

    pool, client = await harness.pool(behave, Limits(buffer_bytes=2**16)), Client()
    running = asyncio.create_task(relay_to(client, pool))
    await harness.until(lambda: bool(client.bodies))
    client.reading.clear()
    before = -1
    while before != sent:  # until the replica can't send more
        before = sent
        await asyncio.sleep(0.1)
    assert sent - len(client.body) < 16 * 2**20, "sockets hold some megabytes, the gateway next to nothing"
    client.hang_up()
    assert (await running).ending is Ending.CLIENT_GONE
