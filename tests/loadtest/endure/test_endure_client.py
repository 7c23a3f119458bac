"""Whether the client of `make endure` tells right answers from wrong ones."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from loadtest.endure.client import Client, Leaves, Tally
from loadtest.endure.engine import Engine
from loadtest.endure.words import request

Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def client_of(accept: Accept) -> AsyncIterator[tuple[Client, Tally]]:
    serving = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        await accept(reader, writer)
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    tally = Tally()
    client = Client(server.sockets[0].getsockname()[1], tally)
    async with server:
        yield client, tally
        client.hang_up()
        await asyncio.gather(*serving)


def says(answer: bytes) -> Accept:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    return accept


@pytest.mark.parametrize("stream", [False, True])
async def test_right_answers_are_right_on_one_connection(stream: bool) -> None:
    async with client_of(Engine(None).accept) as (client, tally):
        for number in range(3):
            await client.ask(f"n{number}", 5, 1000, stream=stream)
    assert tally == Tally(right=3)


@pytest.mark.parametrize("leaves", list(Leaves))
async def test_one_that_leaves_is_no_error_and_the_next_is_answered(leaves: Leaves) -> None:
    async with client_of(Engine(None).accept) as (client, tally):
        await client.ask("a", 5, 1000, stream=True, leaves=leaves)
        await client.ask("b", 5, 1000, stream=True)
    assert tally == Tally(right=1, left=1)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'{"choices":[{"message":{"content":"n:0 n:1 "}}]}', "right"),
        (b'{"choices":[{"message":{"content":"m:0 m:1 "}}]}', "wrong"),
        (b'{"choices":[{"message":{"content":"n:0 "}}]}', "wrong"),
    ],
)
async def test_an_answer_to_somebody_else_or_half_of_one_is_wrong(answer: bytes, expected: str) -> None:
    async with client_of(says(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer)) as (
        client,
        tally,
    ):
        await client.ask("n", 2, 10, stream=False)
    assert (getattr(tally, expected), tally.errors) == (1, {})


async def test_a_stream_without_its_end_is_wrong() -> None:
    event = b'data: {"choices":[{"delta":{"content":"n:0 "}}]}\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
    async with client_of(says(head % len(event) + event)) as (client, tally):
        await client.ask("n", 1, 10, stream=True)
    assert tally == Tally(wrong=1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n", "503"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", "broke off"),
        (b"", "broke off"),
        (b'HTTP/1.1 502 X\r\ncontent-length: 29\r\n\r\n{"error": {"code": "nobody"}}', "nobody"),
    ],
)
async def test_what_is_no_answer_is_an_error(answer: bytes, error: str) -> None:
    async with client_of(says(answer)) as (client, tally):
        await client.ask("n", 1, 10, stream=False)
    assert tally.errors == {error: 1}


async def test_a_stream_that_says_that_it_broke_off_is_an_error_and_not_wrong() -> None:
    said = b'data: {"choices":[{"delta":{"content":"n:0 "}}]}\n\ndata: {"error": {"code": 502}}\n\n'
    async with client_of(says(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(said) + said)) as (client, tally):
        await client.ask("n", 2, 10, stream=True)
    assert (tally.wrong, tally.errors) == (0, {"502 in a stream": 1})


async def test_an_engine_notices_that_a_request_did_not_come_as_it_was_sent() -> None:
    body = request("n", 1, 100, stream=False).replace(b"n ", b"m ", 1)

    async with client_of(Engine(None).accept) as (client, tally):
        await client.ask("n", 1, 10, stream=False)
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        assert b'"damaged"' in await reader.readuntil(b'"usage"')
        writer.close()
    assert tally.right == 1
