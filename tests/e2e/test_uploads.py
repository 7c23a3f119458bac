"""Forms of any size go through as they come."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from fake_replica import FakeReplica, fake_replica
from gateway_here import Here, gateway_here, until
from processes import eventually

AUDIO = b"/v1/audio/transcriptions"
HELD = 65_536
PIECE = bytes(range(256)) * 4096
OK = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{"text":"yes"}'[:-1]
MODEL = b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nfake\r\n'
FILE = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
END = b"\r\n--xyz--\r\n"


def head(length: int | None, *further: bytes, path: bytes = AUDIO) -> bytes:
    framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
    kind = b"content-type: multipart/form-data; boundary=xyz"
    return b"\r\n".join([b"POST %b HTTP/1.1" % path, b"host: x", kind, framing, *further, b"", b""])


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass
class Taken:
    """What a replica gets of an upload: as much as `most` bytes, all for None; then it says `answer`."""

    answer: bytes = OK
    most: int | None = None
    size: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    ended: bool = False

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        end = b""
        while self.most is None or self.size < self.most:
            data = await reader.read(1_048_576)
            if not data:
                self.ended = True
                return False
            self.size += len(data)
            self.digest.update(data)
            end = (end + data)[-20:]
            if end.endswith((END, b"\r\n0\r\n\r\n")):
                break
        writer.write(self.answer)
        await writer.drain()
        if self.most is not None:
            while await reader.read(1_048_576):
                pass
            self.ended = True
        return True


@dataclass
class World:
    one: FakeReplica
    here: Here

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self.here.url.removeprefix("http://").split(":")
        return await asyncio.open_connection(host, int(port))

    async def quiet(self) -> None:
        async def holds() -> bool:
            return not await self.here.in_flight() and not self.one.open

        await eventually(holds, "leases are back, and the replica works on nothing")

    async def say(self, *parts: bytes) -> bytes:
        """The gateway's answer to a request that asks for the connection to be closed."""
        reader, writer = await self.connect()
        writer.writelines(parts)
        try:
            return await asyncio.wait_for(reader.read(), 20.0)
        finally:
            writer.close()


@asynccontextmanager
async def world(*further: str, limits: Mapping[str, object] | None = None, **settings: object) -> AsyncIterator[World]:
    """further: URLs of other replicas than the one."""
    async with fake_replica() as one:
        replicas = [{"url": url} for url in (one.url, *further)]
        limits = {"upload_held": HELD, **(limits or {})}
        given = {"replicas": replicas, "limits": limits, **settings}
        async with gateway_here(given, joined=len(replicas)) as here:
            yield World(one, here)


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_long_form_comes_out_as_it_went_in(chunked: bool) -> None:
    parts = [MODEL, FILE, *[PIECE] * 3, END]
    whole = b"".join(parts)
    async with world() as at:
        taken = Taken()
        at.one.takes = taken.take
        if chunked:
            sent = [head(None, b"connection: close"), *map(chunk, parts), b"0\r\n\r\n"]
        else:
            sent = [head(len(whole), b"connection: close"), whole]
        assert (await at.say(*sent)).startswith(b"HTTP/1.1 200 ")
        assert ("transfer-encoding: chunked" in at.one.heads[0]) == chunked
        if not chunked:
            assert f"content-length: {len(whole)}" in at.one.heads[0]
            assert taken.digest.digest() == hashlib.sha256(whole).digest()
        await at.quiet()


LONG = 8 * len(PIECE)
BEGUN = MODEL + FILE + PIECE


async def test_a_client_that_hangs_up_in_its_upload_leaves_nothing() -> None:
    async with world() as at:
        taken = Taken()
        at.one.takes = taken.take
        _, writer = await at.connect()
        writer.write(head(LONG) + BEGUN)
        await until(lambda: taken.size == len(BEGUN), "the replica has what was sent")
        writer.transport.abort()
        await at.quiet()
        assert taken.ended
        rows = await at.here.metric("kvgate_requests_total")
        assert rows == {'{model="fake",outcome="client_gone",policy="",replica="",status=""}': 1.0}


async def test_an_early_answer_goes_to_the_client_and_ends_the_upload() -> None:
    refused = b"HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    async with world() as at:
        taken = Taken(refused, most=1)
        at.one.takes = taken.take
        reader, writer = await at.connect()
        writer.write(head(LONG) + BEGUN)
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n{}"), 20.0)
        assert answer.startswith(b"HTTP/1.1 400 ")
        await until(lambda: taken.ended, "the replica's connection is closed, for it got half a request")
        writer.write(bytes(LONG - len(BEGUN)))  # of no use to anybody, but the next request comes behind it
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 20.0)).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await at.quiet()


async def test_nothing_is_sent_again_once_it_has_begun() -> None:
    async with fake_replica() as other, world(other.url, ejection={"failures": 1000}) as at:
        asked = [at.one, other]

        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            await reader.read(1)
            return False

        sent = head(len(BEGUN + END), b"connection: close") + BEGUN + END
        for answer, expected in ((None, b"502"), (b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n", b"503")):
            for replica in asked:
                replica.takes = hang_up if answer is None else Taken(answer).take
            before = len(at.one.heads) + len(other.heads)
            reply = await at.say(sent)
            assert reply.split()[1] == expected
            assert (b"retry-after" in reply) == (expected == b"503")
            assert len(at.one.heads) + len(other.heads) == before + 1
        assert await at.here.metric("kvgate_retries_refused_total") == {'{reason="upload"}': 1.0}
        await at.quiet()


async def test_a_replica_that_refuses_connections_costs_no_upload() -> None:
    async with fake_replica() as other, world(other.url, probing={"interval": 3600}) as at:
        at.one.stop_listening()
        for _ in range(4):
            taken = Taken()
            other.takes = taken.take
            reply = await at.say(head(len(BEGUN + END), b"connection: close") + BEGUN + END)
            assert (reply.split()[1], taken.size) == (b"200", len(BEGUN + END))


async def test_a_form_that_is_held_whole_is_sent_again() -> None:
    form = MODEL + FILE + b"short" + END
    busy = b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n"
    async with fake_replica() as other, world(other.url) as at:
        at.one.takes, other.takes = Taken(busy).take, Taken().take
        for _ in range(4):
            assert (await at.say(head(len(form), b"connection: close") + form)).startswith(b"HTTP/1.1 200 ")


async def test_a_slow_replica_holds_the_client_back() -> None:
    async with world() as at:
        go = asyncio.Event()
        taken = Taken()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            await go.wait()
            return await taken.take(reader, writer)

        at.one.takes = slow
        reader, writer = await at.connect()
        size = 64 * len(PIECE)
        writer.write(head(size + len(MODEL + FILE + END), b"connection: close") + MODEL + FILE)
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < size:
                writer.write(PIECE)
                await writer.drain()
                sent += len(PIECE)
            writer.write(END)

        sending = asyncio.create_task(send())
        stuck = -1
        while sent != stuck:
            stuck = sent
            await asyncio.sleep(0.3)
        assert sent < size / 2  # what the system's own buffers take, and no more
        go.set()
        await sending
        assert (await asyncio.wait_for(reader.read(), 20.0)).startswith(b"HTTP/1.1 200 ")
        assert taken.size == size + len(MODEL + FILE + END)
        writer.close()


async def test_who_may_not_send_is_told_before_the_body_comes() -> None:
    keys = [{"name": "a", "sha256": hashlib.sha256(b"k").hexdigest(), "models": ["fake"]}]
    async with world(limits={"upload_bytes": 1_000_000}, admission={"keys": keys}) as at:
        at.one.takes = Taken().take
        expect, key = b"expect: 100-continue", b"x-api-key: k"
        cases = {
            b"401": head(5000, expect),
            b"404": head(5000, expect, key, path=b"/v1/files"),
            b"413": head(1_000_001, expect, key),
        }
        for status, sent in cases.items():
            reader, writer = await at.connect()
            writer.write(sent)
            assert (await asyncio.wait_for(reader.readline(), 20.0)).split()[1] == status
            writer.close()
        form = MODEL + FILE + bytes(200_000) + END
        reader, writer = await at.connect()
        writer.write(head(len(form), expect, key, b"connection: close"))
        assert await asyncio.wait_for(reader.readline(), 20.0) == b"HTTP/1.1 100 Continue\r\n"
        writer.write(form)
        assert b"\r\n\r\nHTTP/1.1 200 OK" in b"\r\n" + await asyncio.wait_for(reader.read(), 20.0)
        writer.close()
        assert "expect" not in at.one.heads[-1]
        parts = [MODEL, FILE, *[bytes(100_000)] * 11]
        uncounted = [head(None, key, b"connection: close"), *map(chunk, parts)]
        assert (await at.say(*uncounted)).startswith(b"HTTP/1.1 413 ")
        await at.quiet()


async def test_a_model_that_comes_too_late_is_refused_where_it_could_be_another() -> None:
    late = MODEL.replace(b"fake", b"secret")
    async with world() as at:
        for begun in (MODEL + FILE, FILE):
            taken = Taken()
            at.one.takes = taken.take
            form = begun + PIECE + b"\r\n" + late + b"--xyz--\r\n"
            reply = await at.say(head(len(form), b"connection: close") + form)
            assert reply.startswith(b"HTTP/1.1 400 ")
            assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["param"] == "model"
            await until(lambda taken=taken: taken.ended, "the replica never gets the end")  # type: ignore[misc]
        form = FILE + PIECE + b"\r\n" + MODEL + b"--xyz--\r\n"  # the only one that there is
        at.one.takes = Taken().take
        assert (await at.say(head(len(form), b"connection: close") + form)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("size", [10, len(PIECE)])
async def test_an_alias_is_written_into_a_form(size: int) -> None:
    async with world(aliases={"whisper-1": "fake"}) as at:
        taken = Taken()
        at.one.takes = taken.take
        file = PIECE[:size]
        form = MODEL.replace(b"fake", b"whisper-1") + FILE + file + END
        assert (await at.say(head(len(form), b"connection: close") + form)).startswith(b"HTTP/1.1 200 ")
        assert taken.digest.digest() == hashlib.sha256(MODEL + FILE + file + END).digest()
        assert f"content-length: {len(MODEL + FILE + file + END)}" in at.one.heads[0]
