import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import hiredis
import pytest

from gateway.l2.names import InProcess, Remote
from gateway.l2.redis_store import redis_store
from gateway.l2.store import Progress, Store

CHUNKS = [Remote(InProcess("/m/q", world=2)).files(f"{number:x}") for number in range(200)]


class FarSide:
    """What a Redis server says, to the commands that are used here."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.reads = 0
        self.hangs = False
        self.serving: list[asyncio.Task[None]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self.serving.append(task)
        parser = hiredis.Reader()
        while data := await reader.read(1 << 20):
            self.reads += 1
            parser.feed(data)
            while (command := parser.gets()) is not False:
                if not self.hangs:
                    writer.write(self._answer([word.decode() for word in command]))
        writer.close()
        await writer.wait_closed()

    def _answer(self, command: list[str]) -> bytes:
        match command[0].upper():
            case "EXISTS":
                return b":%d\r\n" % sum(key in self.keys for key in command[1:])
            case "PING":
                return b"+PONG\r\n"
            case "INFO":
                text = b"# Memory\r\nused_memory:250\r\nmaxmemory:1000\r\n"
                return b"$%d\r\n%b\r\n" % (len(text), text)
            case "HELLO":
                return b"-ERR unknown command\r\n"
        return b"+OK\r\n"


@asynccontextmanager
async def redis(scheme: str = "redis") -> AsyncIterator[tuple[FarSide, Store]]:
    far = FarSide()
    server = await asyncio.start_server(far.serve, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    store = redis_store(f"{scheme}://127.0.0.1:{port}")
    try:
        yield far, store
    finally:
        store.close()
        server.close()
        await asyncio.gather(*far.serving)


async def leading(store: Store) -> int:
    return await asyncio.to_thread(partial(store.leading, CHUNKS, Progress()))


@pytest.mark.parametrize(("scheme", "suffix"), [("redis", "metadata"), ("valkey", ""), ("resp", "")])
async def test_lmcaches_keys_are_asked_for(scheme: str, suffix: str) -> None:
    async with redis(scheme) as (far, store):
        far.keys = {
            "/m/q@2@0@0@bfloat16" + suffix, "/m/q@2@1@0@bfloat16" + suffix,
            "/m/q@2@0@1@bfloat16" + suffix,  # of the second chunk one rank's part only
        }  # fmt: skip
        assert await leading(store) == 1


@pytest.mark.parametrize("there", [0, 1, 64, 65, 130, 200])
async def test_many_are_asked_for_in_one_round_trip(there: int) -> None:
    async with redis() as (far, store):
        far.keys = {key + "metadata" for chunk in CHUNKS[:there] for key in chunk}
        await leading(store)
        far.reads = 0
        assert await leading(store) == there
        assert far.reads <= 8, "four batches, each in a piece or two"


async def test_it_is_seen_how_full_it_is() -> None:
    async with redis() as (_, store):
        assert await asyncio.to_thread(store.check) == 0.25


async def test_one_that_is_away_or_hangs_is_a_failed_look_up() -> None:
    async with redis() as (far, store):
        far.hangs = True
        with pytest.raises(OSError, match="Timeout"):
            await leading(store)
    with pytest.raises(OSError, match="refused"):
        await leading(redis_store("redis://127.0.0.1:1"))
