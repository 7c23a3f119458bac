"""Work stops when its client hangs up."""

import asyncio
import contextlib
from collections.abc import MutableMapping
from typing import Any

import pytest
from asgi_side import asgi_client

from gateway.errors import ClientGone
from gateway.relay.watch import ClientWatch


class Client:
    """The client's end of a request whose body has been read."""

    def __init__(self) -> None:
        self._left = asyncio.Event()

    def hang_up(self) -> None:
        self._left.set()

    async def receive(self) -> MutableMapping[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}


async def until_gone(watch: ClientWatch) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    assert watch.gone


async def test_work_that_waits_is_cancelled() -> None:
    client, ended = Client(), []
    asyncio.get_running_loop().call_soon(client.hang_up)

    async def work() -> None:
        with ClientWatch(await asgi_client(client.receive)):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cleaned up")

    with pytest.raises(ClientGone):
        await work()
    assert ended == ["cleaned up"]
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    await asyncio.sleep(0)  # the task goes on as if nothing had been


async def test_work_after_a_hang_up_does_not_begin() -> None:
    client = Client()
    watch = ClientWatch(await asgi_client(client.receive))
    client.hang_up()
    await until_gone(watch)
    began = False
    with pytest.raises(ClientGone), watch:
        began = True
    assert not began


async def test_a_client_that_stays_changes_nothing() -> None:
    client = Client()
    with ClientWatch(await asgi_client(client.receive)) as watch:
        await asyncio.sleep(0)
    assert not watch.gone
    client.hang_up()
    await until_gone(watch)
    await asyncio.sleep(0)


async def test_blocks_may_follow_one_another() -> None:
    client, steps = Client(), []

    async def work() -> None:
        watch = ClientWatch(await asgi_client(client.receive))
        with watch:
            steps.append("first")
            await asyncio.sleep(0)
        steps.append("between")
        with watch:
            client.hang_up()
            await asyncio.Event().wait()
        steps.append("never")

    with pytest.raises(ClientGone):
        await work()
    assert steps == ["first", "between"]


async def test_work_may_end_well_after_a_hang_up() -> None:
    client = Client()
    asyncio.get_running_loop().call_soon(client.hang_up)
    with ClientWatch(await asgi_client(client.receive)), contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_cancellation_taken_for_the_hang_up_stays_one() -> None:
    client = Client()

    async def work() -> None:
        with ClientWatch(await asgi_client(client.receive)) as watch, contextlib.suppress(asyncio.CancelledError):
            client.hang_up()
            await until_gone(watch)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    client.hang_up()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_work_is_not_hidden_by_the_hang_up() -> None:
    client = Client()
    asyncio.get_running_loop().call_soon(client.hang_up)

    async def work() -> None:
        with ClientWatch(await asgi_client(client.receive)):
            try:
                await asyncio.Event().wait()
            finally:
                raise KeyError

    with pytest.raises(KeyError):
        await work()


async def test_somebody_elses_cancellation_stays_one() -> None:
    client = Client()

    async def work() -> None:
        with ClientWatch(await asgi_client(client.receive)):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    client.hang_up()
    await asyncio.sleep(0)


async def test_both_at_once_is_a_cancellation() -> None:
    client = Client()

    async def work() -> None:
        with ClientWatch(await asgi_client(client.receive)) as watch:
            client.hang_up()
            await until_gone(watch)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    client.hang_up()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_more_of_a_body_is_no_hang_up() -> None:
    messages = [{"type": "http.request", "body": b"x"}, {"type": "http.request", "body": b""}]
    client = Client()

    async def receive() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await client.receive()

    with ClientWatch(await asgi_client(receive)) as watch:
        for _ in range(10):
            await asyncio.sleep(0)
    assert not messages
    assert not watch.gone
    client.hang_up()
    await until_gone(watch)


async def test_after_the_last_part_of_an_answer_a_disconnect_means_nothing() -> None:
    client = Client()
    asgi = await asgi_client(client.receive)
    with ClientWatch(asgi) as watch:
        asgi.start(200, ())
        asgi.write(b"", more=False)
        client.hang_up()
        for _ in range(10):
            await asyncio.sleep(0)
    assert not watch.gone
