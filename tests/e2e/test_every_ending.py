"""Whatever a replica or a client does, at whatever stage: what comes back is right and nothing is left behind."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest
from fake_replica import FakeReplica, Script, fake_replica
from gateway_here import Here, gateway_here, until
from processes import eventually
from unreachable import uncollected, unreachable

CHAT = "/v1/chat/completions"


def says(*parts: bytes, step: int = 0, then: str = "keep") -> Script:
    """Answers so, `step` bytes at once or each part at once. then: keep, close, reset, or wait for the hang-up."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        for part in parts:
            for at in range(0, len(part), step or len(part) or 1):
                writer.write(part[at : at + (step or len(part))])
                await writer.drain()
                await asyncio.sleep(0)
        if then == "wait":
            await reader.read(1)
        if then == "close":
            writer.close()
            await writer.wait_closed()
        return then == "keep"

    return script


def chunked(data: bytes, size: int = 7) -> bytes:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def event(text: str) -> str:
    delta = {"id": "1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    return "data: " + json.dumps(delta, ensure_ascii=False) + "\n\n"


STREAM = (event("Grüße, 世界 🌍") + event("zwei") + "data: [DONE]\n\n").encode()
CRLF = STREAM.replace(b"\n", b"\r\n")
MULTI_LINE = b': a comment\n\nevent: x\nid: 7\ndata: {"a":\ndata: 1}\n\nretry: 5\n\ndata: [DONE]\n\n'
UNFINISHED = STREAM.removesuffix(b"\n\n")
WHOLE = json.dumps({"id": "1", "choices": [], "text": "Grüße 世界"}, ensure_ascii=False).encode()

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNKED_JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


def json_head(length: int, version: bytes = b"1.1") -> bytes:
    return b"HTTP/%b 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (version, length)


COMPLETE = {
    "a stream": ((SSE_HEAD, chunked(STREAM)), "keep", STREAM),
    "a stream in CRLF": ((SSE_HEAD, chunked(CRLF)), "keep", CRLF),
    "events of several lines": ((SSE_HEAD, chunked(MULTI_LINE)), "keep", MULTI_LINE),
    "a stream without its last blank line": ((SSE_HEAD, chunked(UNFINISHED)), "keep", UNFINISHED),
    "a stream in one chunk": ((SSE_HEAD, chunked(STREAM, 10**6)), "keep", STREAM),
    "a stream of nothing": ((SSE_HEAD, b"0\r\n\r\n"), "keep", b""),
    "a stream with trailers": ((SSE_HEAD, chunked(STREAM)[:-2] + b"x-t: 1\r\n\r\n"), "keep", STREAM),
    "a stream with chunk extensions": ((SSE_HEAD, b"3;a=b\r\n: x\r\n2\r\n\n\n\r\n0\r\n\r\n"), "keep", b": x\n\n"),
    "an answer": ((json_head(len(WHOLE)), WHOLE), "keep", WHOLE),
    "an answer in chunks": ((CHUNKED_JSON, chunked(WHOLE, 3)), "keep", WHOLE),
    "an answer of nothing": ((json_head(0),), "keep", b""),
    "an answer behind a hint": ((b"HTTP/1.1 103 Early\r\n\r\n" + json_head(len(WHOLE)), WHOLE), "keep", WHOLE),
    "HTTP/1.0 with a length": ((json_head(len(WHOLE), b"1.0"), WHOLE), "close", WHOLE),
    "HTTP/1.0 to its end": ((b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n", WHOLE), "close", WHOLE),
    "HTTP/1.0 stream": ((b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", STREAM), "close", STREAM),
}  # fmt: skip

BROKEN = {
    "nothing": ((), 502),
    "half a head": ((SSE_HEAD[:20],), 502),
    "a head of JSON": ((json_head(50),), 502),
    "half an answer": ((json_head(len(WHOLE)), WHOLE[:-5]), 502),
    "half a chunk": ((CHUNKED_JSON, b"ff\r\n{"), 502),
    "chunks without end": ((CHUNKED_JSON, chunked(WHOLE)[:-5]), 502),
    "a head of a stream": ((SSE_HEAD,), 200),
    "half an event": ((SSE_HEAD, b"10\r\ndata: {\r\n"), 200),
    "events without end": ((SSE_HEAD, chunked(STREAM)[:-5]), 200),
}

NO_ANSWER = {
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "length and chunks": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
    "a folded header": b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\n{}",
    "a bare line feed": b"HTTP/1.1 200 OK\nx: a\ncontent-length: 2\n\n{}",
    "a bad chunk size": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "an upgrade": b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "an endless head": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 100_000,
}


@dataclass
class World:
    fake: FakeReplica
    here: Here
    rows: float = 0.0

    async def post(self, *, stream: bool) -> tuple[int, bytes]:
        body = {"model": "fake", "messages": [], "stream": stream, "stream_options": {"include_usage": True}}
        answer = await self.here.client.post(self.here.url + CHAT, json=body)
        return answer.status_code, answer.content

    async def nothing_is_left(self) -> None:
        """Leases and pool places are back, and nothing of ours waits for Python's collector."""

        async def holds() -> bool:
            connections = await self.here.metric("kvgate_upstream_connections")
            used = sum(count for labels, count in connections.items() if "idle" not in labels)
            return not (await self.here.in_flight() or self.fake.open or used)

        await eventually(holds, "leases, work and connections are back")
        assert not unreachable("gateway")

    async def counted(self, rows: float) -> None:
        """Wait until so many requests have been counted since the last look."""

        async def are() -> bool:
            return sum((await self.here.metric("kvgate_requests_total")).values()) >= self.rows + rows

        await eventually(are, "the request is counted")

    async def new_rows(self) -> float:
        """Requests counted since the last look."""
        before, self.rows = self.rows, sum((await self.here.metric("kvgate_requests_total")).values())
        return self.rows - before


@asynccontextmanager
async def world(**settings: object) -> AsyncIterator[World]:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], **settings}) as here:
        with uncollected():
            yield World(fake, here)


@pytest.mark.parametrize("step", [0, 1])
async def test_what_is_complete_comes_through_byte_for_byte(step: int) -> None:
    async with world() as at:
        for name, (parts, then, expected) in COMPLETE.items():
            at.fake.script = says(*parts, step=step, then=then)
            assert (name, *await at.post(stream="stream" in name)) == (name, 200, expected)
            await at.nothing_is_left()
            assert (name, await at.new_rows()) == (name, 1.0)


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_what_breaks_off_says_so_at_every_stage(then: str) -> None:
    async with world(ejection={"failures": 1000}) as at:
        for name, (parts, expected) in BROKEN.items():
            at.fake.script = says(*parts, then=then)
            status, answer = await at.post(stream=expected == 200)
            assert (name, status) == (name, expected)
            last = answer.strip().rsplit(b"\n\n", 1)[-1].removeprefix(b"data: ") if status == 200 else answer
            assert (name, "error" in json.loads(last), b"[DONE]" in last) == (name, True, False)
            await at.nothing_is_left()
            assert (name, await at.new_rows()) == (name, 1.0)


async def test_what_is_silent_is_a_timeout_at_every_stage() -> None:
    limits = {"response_timeout": 0.2, "idle_timeout": 0.2}
    async with world(limits=limits, ejection={"failures": 1000}) as at:
        for name, (parts, broken) in BROKEN.items():
            expected = 504 if broken == 502 else 200
            at.fake.script = says(*parts, then="wait")
            status, answer = await at.post(stream=expected == 200)
            assert (name, status) == (name, expected)
            assert (name, b"504" in answer or b"in time" in answer) == (name, True)
            await at.nothing_is_left()
            assert (name, await at.new_rows()) == (name, 1.0)


async def test_what_is_no_answer_is_a_502_and_its_connection_closed() -> None:
    async with world(ejection={"failures": 1000}) as at:
        for name, answer in NO_ANSWER.items():
            at.fake.script = says(answer, then="wait")
            assert (name, (await at.post(stream=False))[0]) == (name, 502)
            await at.nothing_is_left()
            assert (name, await at.new_rows()) == (name, 1.0)


async def test_what_cannot_be_sent_anywhere_is_a_502_and_leaves_nothing() -> None:
    # Probed so seldom that only the request itself finds out: a replica that has left is a 503.
    async with world(ejection={"connections": 1000}, probing={"interval": 3600}) as at:
        at.fake.stop_listening()
        assert (await at.post(stream=False))[0] == 502
        await at.nothing_is_left()


def _more(requests: Sequence[object], before: int) -> bool:
    return len(requests) > before


def stages(payload: bytes) -> Sequence[tuple[str, bytes, bytes]]:
    """Where a client leaves: what it has sent by then, and what it has read of the answer."""
    head = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(payload))
    return [
        ("before its request", b"", b""),
        ("in its head", head[:20], b""),
        ("before its body", head, b""),
        ("in its body", head + payload[:10], b""),
        ("while it waits", head + payload, b""),
        ("in the answer's head", head + payload, b"HTTP/1.1"),
        ("in the answer", head + payload, b"zwei"),
    ]


async def test_a_client_that_leaves_at_any_stage_leaves_nothing() -> None:
    payload = json.dumps({"model": "fake", "messages": [], "stream": True}).encode()
    async with world() as at:
        host, port = at.here.url.removeprefix("http://").split(":")
        for name, sent, read in stages(payload):
            at.fake.script = says(SSE_HEAD, chunked(STREAM)[:-5], then="wait") if read else says(then="wait")
            before = len(at.fake.requests)
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            await writer.drain()
            rows = 0.0 if name in ("before its request", "in its head") else 1.0
            if read:
                await reader.readuntil(read)
            elif name == "while it waits":
                await until(partial(_more, at.fake.requests, before), "the replica has the request")
            writer.transport.abort()
            await at.counted(rows)
            await at.nothing_is_left()
            assert (name, await at.new_rows()) == (name, rows)
        at.fake.script = None
        assert (await at.post(stream=False))[0] == 200
