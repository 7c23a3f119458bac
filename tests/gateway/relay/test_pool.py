"""Who gets which connection, and that every place comes back."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from scripted_peer import Harness, Peer, answering

from gateway.errors import UpstreamBroken, UpstreamError, UpstreamUnreachable
from gateway.relay.limits import Limits
from gateway.relay.origin import Origin
from gateway.relay.pool import Pool
from gateway.relay.upstream import UpstreamResponse

CERTIFICATES = Path(__file__).parents[2] / "support/certificates"
HEADERS = ((b"host", b"replica"), (b"content-length", b"2"))
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def post(pool: Pool) -> UpstreamResponse:
    return await pool.send(b"POST", b"/v1/x", HEADERS, b"{}")


async def ask(pool: Pool) -> bytes:
    """A whole exchange."""
    response = await post(pool)
    try:
        return await response.read()
    finally:
        response.close()


async def echo_own_number(peer: Peer) -> None:
    """Answers with the port at the gateway's end, which names the connection."""
    port = b"%5d" % peer.writer.get_extra_info("peername")[1]
    while True:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n" + port)


async def never_answer(peer: Peer) -> None:
    await peer.request()
    await peer.hung_up()


async def test_the_connection_used_last_is_used_next(harness: Harness) -> None:
    pool = await harness.pool(echo_own_number)
    one, two = await post(pool), await post(pool)
    first, last = await one.read(), await two.read()
    assert (pool.open, pool.idle, pool.in_use) == (2, 0, 2)
    one.close()
    two.close()
    assert (pool.open, pool.idle, pool.in_use) == (2, 2, 0)
    assert first != last
    assert [await ask(pool) for _ in range(3)] == [last] * 3


async def test_idle_connections_are_closed_at_their_age(harness: Harness) -> None:
    pool = await harness.pool(echo_own_number, Limits(keep_alive=0.05))
    first = await ask(pool)
    assert pool.idle == 1
    await harness.until(lambda: pool.open == 0)
    assert await ask(pool) != first


async def test_no_more_connections_than_allowed_and_first_come_first_served(harness: Harness) -> None:
    pool = await harness.pool(echo_own_number, Limits(connections=2))
    held = [await post(pool), await post(pool)]
    served: list[int] = []

    async def take(number: int) -> None:
        await ask(pool)
        served.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(take(number))
        await harness.until(lambda: pool.queued == 5)
        assert pool.open == 2
        held[0].close()
    assert served == [0, 1, 2, 3, 4]
    held[1].close()
    await harness.until(lambda: pool.in_use == 0)
    assert harness.replicas[0].connections == 2


async def test_waiting_for_a_connection_has_a_limit(harness: Harness) -> None:
    pool = await harness.pool(never_answer, Limits(connections=1, acquire=0.05))
    running = asyncio.create_task(post(pool))
    await harness.until(lambda: pool.in_use == 1)
    with pytest.raises(UpstreamUnreachable, match="no free connection"):
        await post(pool)
    assert pool.queued == 0
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert pool.open == 0


async def test_a_refused_connection_is_unreachable(harness: Harness) -> None:
    replica = await harness.replica(never_answer)
    harness.servers[0].close()
    pool = harness.pool_of(replica)
    for _ in range(3):
        with pytest.raises(UpstreamUnreachable):
            await post(pool)
    assert pool.open == 0


async def test_a_host_that_does_not_exist_is_unreachable() -> None:
    pool = Pool(Origin("http", "replica.invalid", 80))
    with pytest.raises(UpstreamUnreachable):
        await post(pool)
    assert pool.open == 0
    pool.close()


async def test_a_kept_connection_that_the_replica_closed_costs_nothing(harness: Harness) -> None:
    async def one_answer_per_connection(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)

    pool = await harness.pool(one_answer_per_connection)
    for _ in range(20):
        assert await ask(pool) == b"ok"
    assert harness.replicas[0].connections == 20


async def test_a_kept_connection_that_closes_under_the_request_is_replaced_once(harness: Harness) -> None:
    async def close_on_the_second(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        await peer.request()

    pool = await harness.pool(close_on_the_second)
    one, two = await post(pool), await post(pool)
    one.close()
    two.close()
    for _ in range(4):
        response = await post(pool)
        assert response.status == 200
        response.close()


async def test_the_replacement_is_a_connection_nobody_used(harness: Harness) -> None:
    async def close_on_the_second(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        await peer.request()

    pool = await harness.pool(close_on_the_second, Limits(connections=3))
    responses = [await post(pool) for _ in range(3)]
    for response in responses:
        await response.read()
        response.close()
    assert pool.idle == 3
    assert await ask(pool) == b"ok"
    assert harness.replicas[0].connections == 4
    assert pool.open <= 3


async def test_a_fresh_connection_that_closes_under_the_request_is_not_retried(harness: Harness) -> None:
    async def close_on_the_first(peer: Peer) -> None:
        await peer.request()

    pool = await harness.pool(close_on_the_first)
    with pytest.raises(UpstreamBroken):
        await post(pool)
    assert harness.replicas[0].connections == 1
    await harness.until(lambda: pool.open == 0)


async def test_a_kept_connection_that_closes_within_the_answer_is_not_retried(harness: Harness) -> None:
    async def break_on_the_second(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        await peer.request()
        await peer.say(b"HTTP/1.1 2")

    pool = await harness.pool(break_on_the_second)
    await ask(pool)
    with pytest.raises(UpstreamBroken):
        await post(pool)
    assert harness.replicas[0].connections == 1


async def test_bytes_on_an_idle_connection_close_it(harness: Harness) -> None:
    async def talk_unasked(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        await asyncio.sleep(0.02)
        await peer.say(OK)
        await peer.hung_up()

    pool = await harness.pool(talk_unasked)
    assert await ask(pool) == b"ok"
    await harness.until(lambda: pool.open == 0)


Stage = Callable[[Harness, Pool], Awaitable[None]]


async def in_the_queue(harness: Harness, pool: Pool) -> None:
    await harness.until(lambda: pool.queued == 1)


async def while_waiting_for_headers(harness: Harness, pool: Pool) -> None:
    await harness.until(lambda: harness.replicas[0].playing == 1)


async def while_connecting(harness: Harness, pool: Pool) -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("stage", [while_connecting, while_waiting_for_headers])
async def test_a_cancelled_send_closes_its_connection_and_gives_its_place_back(harness: Harness, stage: Stage) -> None:
    pool = await harness.pool(never_answer, Limits(connections=1))
    sending = asyncio.create_task(post(pool))
    await stage(harness, pool)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert (pool.open, pool.queued) == (0, 0)
    await harness.until(lambda: harness.replicas[0].playing == 0)


async def test_one_cancelled_in_the_queue_takes_nobodys_place(harness: Harness) -> None:
    pool = await harness.pool(echo_own_number, Limits(connections=1))
    response = await post(pool)
    waiting = [asyncio.create_task(ask(pool)) for _ in range(3)]
    await harness.until(lambda: pool.queued == 3)
    waiting[0].cancel()
    await response.read()
    response.close()  # calls the next in the queue
    waiting[1].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert isinstance(results[1], asyncio.CancelledError)
    assert isinstance(results[2], bytes)
    assert (pool.open, pool.idle, pool.queued) == (1, 1, 0)


async def test_fifty_aborts_leave_room_for_the_next(harness: Harness) -> None:
    async def answer_get(peer: Peer) -> None:
        while not (await peer.request()).startswith(b"GET"):
            pass
        await peer.say(OK)

    pool = await harness.pool(answer_get, Limits(connections=10))
    sending = [asyncio.create_task(post(pool)) for _ in range(50)]
    await harness.until(lambda: pool.in_use == 10)
    for task in sending:
        task.cancel()
    await asyncio.gather(*sending, return_exceptions=True)
    assert (pool.open, pool.queued) == (0, 0)
    response = await pool.send(b"GET", b"/", ((b"host", b"replica"),))
    assert await response.read() == b"ok"
    response.close()


async def test_closing_refuses_those_who_wait_and_lets_answers_end(harness: Harness) -> None:
    pool = await harness.pool(answering(OK), Limits(connections=1))
    response = await post(pool)
    waiting = asyncio.create_task(post(pool))
    await harness.until(lambda: pool.queued == 1)
    pool.close()
    with pytest.raises(UpstreamUnreachable):
        await waiting
    with pytest.raises(UpstreamUnreachable):
        await post(pool)
    assert await response.read() == b"ok"
    response.close()
    assert (pool.open, pool.queued) == (0, 0)


async def test_https_checks_the_certificate(harness: Harness) -> None:
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(CERTIFICATES / "server.pem")
    replica = await harness.replica(answering(OK), served)
    origin = Origin("https", "127.0.0.1", replica.port)
    stranger = Pool(origin, tls=ssl.create_default_context())
    with pytest.raises(UpstreamUnreachable) as refused:
        await post(stranger)
    assert isinstance(refused.value.__cause__, ssl.SSLCertVerificationError)
    assert stranger.open == 0
    stranger.close()
    known = Pool(origin, tls=ssl.create_default_context(cafile=CERTIFICATES / "ca.pem"))
    assert await ask(known) == b"ok"
    known.close()


async def test_many_at_once_with_a_few_connections_all_get_their_own_answer(harness: Harness) -> None:
    async def mirror(peer: Peer) -> None:
        while True:
            body = (await peer.request()).partition(b"\r\n\r\n")[2]
            await peer.say_slowly(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body, 40)

    pool = await harness.pool(mirror, Limits(connections=4))

    async def one(number: int) -> None:
        body = b"%d" % number * 20
        headers = ((b"host", b"replica"), (b"content-length", b"%d" % len(body)))
        response = await pool.send(b"POST", b"/", headers, body)
        parts = []
        while data := await response.read():
            parts.append(data)
        response.close()
        assert b"".join(parts) == body

    await asyncio.gather(*(one(number) for number in range(300)))
    assert (pool.in_use, pool.queued) == (0, 0)
    assert harness.replicas[0].connections == 4


def test_every_error_is_an_upstream_error() -> None:
    assert issubclass(UpstreamUnreachable, UpstreamError)


@pytest.mark.parametrize(
    ("url", "origin", "authority"),
    [
        ("http://gpu-7:8000", Origin("http", "gpu-7", 8000), b"gpu-7:8000"),
        ("http://gpu-7/", Origin("http", "gpu-7", 80), b"gpu-7"),
        ("https://gpu-7", Origin("https", "gpu-7", 443), b"gpu-7"),
        ("http://[fd00::7]:8000", Origin("http", "fd00::7", 8000), b"[fd00::7]:8000"),
        ("http://10.0.3.7:443", Origin("http", "10.0.3.7", 443), b"10.0.3.7:443"),
    ],
)
def test_an_origin_is_read_from_a_url(url: str, origin: Origin, authority: bytes) -> None:
    assert Origin.parse(url) == origin
    assert origin.authority == authority


@pytest.mark.parametrize(
    "url", ["gpu-7:8000", "ftp://gpu-7", "http://", "http://a/prefix", "http://u:p@a", "http://a:x"]
)
def test_what_is_no_origin_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Origin.parse(url)
