"""A replica that does what a request's `behaviour` says, on a real socket."""

import asyncio
import contextlib
import gzip
import json
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

_MODELS = {"object": "list", "data": [{"id": "fake", "object": "model", "created": 0, "owned_by": "vllm"}]}
_CHUNK = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
_ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]
"""Answers one request; returns whether the connection is kept."""


@dataclass
class FakeReplica:
    """asked: how often it got each GET.
    requests: bodies of the POSTs it got; heads: their heads; raw: as they came. open: how many of them it works on.

    gets: what it answers to GETs, by path: JSON, or text where it is a string; 404 to all others.
    status: what it answers to every POST instead, if not 0. script: says itself what is answered to every POST.
    takes: says itself what is done with a POST of which only the head has been read.
    idle: seconds after which it closes a connection on which nothing comes.
    """

    url: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    requests: list[Mapping[str, object]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    open: int = 0
    gets: dict[str, object] = field(default_factory=lambda: {"/v1/models": _MODELS, "/health": {}})
    status: int = 0
    script: Script | None = None
    takes: Script | None = None
    idle: float | None = None
    _listening: socket.socket | None = None
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def stop_listening(self) -> None:
        """Refuse connections from now on, and close those that stand."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def refuse(self) -> None:
        """Refuse connections from now on; those that stand are served as long as they are used."""
        assert self._server is not None
        assert self._listening is not None
        connected = []
        with contextlib.suppress(BlockingIOError):
            while True:
                connected.append(self._listening.accept()[0])
        self._server.close()
        # Who had connected and was not accepted yet would be reset.
        for each in connected:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(), self.accept), each
            )

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._serve(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError, TimeoutError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. Returns whether the connection is kept."""
        async with asyncio.timeout(self.idle):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if self.takes is not None and head.startswith("post /v1/audio"):
            return await self._take(head, self.takes, reader, writer)
        lengths = [line.partition(":")[2] for line in head.split("\r\n") if line.startswith("content-length:")]
        raw = await reader.readexactly(int(lengths[0]) if lengths else 0)
        method, path, _ = head.split(" ", 2)
        if method == "get":
            self.asked[path] += 1
            writer.write(_whole(200, self.gets[path]) if path in self.gets else _whole(404, {}))
            await writer.drain()
            return True
        if path == "/tokenize" or path.endswith("/render"):
            writer.write(_whole(404, {}))
            await writer.drain()
            return True
        self.heads.append(head)
        self.raw.append(raw)
        gzipped = "content-encoding: gzip" in head
        form = "content-type: multipart/" in head
        request = {} if form or not raw else json.loads(gzip.decompress(raw) if gzipped else raw)
        self.requests.append(request)
        self.open += 1
        try:
            if self.script is not None:
                return await self.script(reader, writer)
            if self.status:
                writer.write(_whole(self.status, {"error": {"message": "as the test says", "code": self.status}}))
                await writer.drain()
                return True
            return await _behave(str(request.get("behaviour", "answer")), request, reader, writer)
        finally:
            self.open -= 1

    async def _take(self, head: str, takes: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self.heads.append(head)
        self.open += 1
        try:
            return await takes(reader, writer)
        finally:
            self.open -= 1


async def _behave(
    behaviour: str, request: Mapping[str, object], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Returns whether the connection is kept."""
    match behaviour:
        case "answer":
            writer.write(_whole(200, {**_ANSWER, "id": request.get("id", "1")}))
            await writer.drain()
            return True
        case "never answer":
            await reader.read(1)
        case "stream for ever":
            writer.write(_STREAM_HEAD)
            if "id" in request:
                created = {"type": "response.created", "response": {"id": request["id"], "status": "in_progress"}}
                writer.write(_chunk(b"event: response.created\ndata: %b\n\n" % json.dumps(created).encode()))
            gone = asyncio.create_task(reader.read(1))
            while not gone.done():
                writer.write(_chunk(_CHUNK))
                await writer.drain()
                await asyncio.wait([gone], timeout=0.01)
            gone.exception()
        case "stream a while":
            writer.write(_STREAM_HEAD)
            for _ in range(20):
                writer.write(_chunk(_CHUNK))
                await writer.drain()
                await asyncio.sleep(0.01)
            writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
            await writer.drain()
            return True
        case "die before headers":
            pass
        case "die in a body":
            writer.write(_whole(200, _ANSWER)[:-10])
            await writer.drain()
        case "die in a stream":
            writer.write(_STREAM_HEAD + _chunk(_CHUNK))
            await writer.drain()
            # A reset throws away what was not read yet, so the chunk is given its time by a proper close.
            writer.close()
            await writer.wait_closed()
        case _:
            raise AssertionError(behaviour)
    if behaviour == "die in a body":
        writer.close()
        await writer.wait_closed()
    return False


def _whole(status: int, value: object) -> bytes:
    body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
    return head + body


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@contextlib.asynccontextmanager
async def fake_replica(
    idle: float | None = None, tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[FakeReplica]:
    """A fake replica until left. port: 0 for any."""
    fake = FakeReplica(idle=idle)
    fake._listening = socket.create_server(("127.0.0.1", port))
    fake._listening.setblocking(False)
    # A gateway may open a thousand connections while the test's own loop does something else.
    fake._server = await asyncio.start_server(fake.accept, sock=fake._listening, ssl=tls, backlog=2048)
    fake.url = f"http{'s' if tls else ''}://127.0.0.1:{fake._listening.getsockname()[1]}"
    try:
        yield fake
    finally:
        fake.stop_listening()
        await asyncio.gather(*fake._tasks)
