"""The client's side without ASGI between: an application that takes exchanges as they are."""

import asyncio

import pytest
from served import Direct, Make, Scope, body_of

from gateway.errors import BodyTooLarge, ClientGone
from gateway.relay.asgi import Receive, Send
from gateway.relay.exchange import Exchange
from gateway.relay.watch import ClientWatch


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
    await made.say(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
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
