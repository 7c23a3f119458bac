"""A fake replica that costs as little as Python allows: `python -m bench.upstream --port P`.

A POST is answered with a chat completion of ~600 bytes, or, if its `user` is `chunks=N&ms=M`, with a stream of N
chunks, one every M milliseconds or as fast as the socket takes them if M is 0. (Not every router passes a query on.)
`GET /v1/models` lists one model, other GETs find nothing but health.
"""

import argparse
import asyncio
import re
from typing import cast

import uvloop

_USAGE = (
    b'"usage":{"prompt_tokens":512,"total_tokens":544,"completion_tokens":32,'
    b'"prompt_tokens_details":{"cached_tokens":496}}'
)
_ANSWER = (
    b'{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1767225600,"model":"bench","choices":[{"in'
    b'dex":0,"message":{"role":"assistant","content":"' + b"word " * 64 + b'"},"logprobs":null,"finish_reason":"stop"}'
    b"]," + _USAGE + b"}"
)
_MODELS = b'{"object":"list","data":[{"id":"bench","object":"model","created":1767225600,"owned_by":"vllm"}]}'


def _whole(status: bytes, body: bytes) -> bytes:
    return (
        b"HTTP/1.1 %b\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: %d\r\n"
        b"content-type: application/json\r\n\r\n%b" % (status, len(body), body)
    )


_JSON = _whole(b"200 OK", _ANSWER)
_GET = {
    b"/v1/models": _whole(b"200 OK", _MODELS),
    b"/health": _whole(b"200 OK", b""),
    b"/metrics": _whole(b"200 OK", b""),
}
_NOT_FOUND = _whole(b"404 Not Found", b"{}")
_SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nserver: uvicorn\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


def _chunk(event: bytes) -> bytes:
    return b"%x\r\ndata: %b\n\n\r\n" % (len(event) + 8, event)


_START = b'{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1767225600,"model":"bench",'
_DELTA = _chunk(_START + b'"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}')
_LAST = _chunk(_START + b'"choices":[],' + _USAGE + b"}") + _chunk(b"[DONE]") + b"0\r\n\r\n"
_STREAM = re.compile(rb"chunks=(\d+)&ms=(\d+)")
_CHUNKS_END = b"\r\n0\r\n\r\n"
_BURST = 64
"""Chunks in one write of an unpaced stream."""


class FakeReplica(asyncio.Protocol):
    """Understands requests with Content-Length, one after the other, and chunked ones that a router makes of them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._left = 0
        self._due = 0.0
        self._interval = 0.0
        self._writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = bytes(self._received[:head_end]).lower()
        at = head.find(b"content-length: ")
        end = head_end + 4 + (int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0)
        if b"transfer-encoding: chunked" in head:
            end = self._received.find(_CHUNKS_END, head_end + 4) + len(_CHUNKS_END)
            if end < len(_CHUNKS_END):
                return
        if len(self._received) < end:
            return
        asked = _STREAM.search(bytes(self._received[head_end:end]))
        del self._received[:end]
        method, _, rest = head.partition(b" ")
        target = rest.partition(b" ")[0]
        assert self._transport is not None
        if method not in (b"get", b"post"):
            self._transport.close()  # somebody finds out whether this is HTTP/2
        elif method == b"get":
            self._transport.write(_GET.get(target, _NOT_FOUND))
        else:
            self._answer(asked)

    def _answer(self, asked: re.Match[bytes] | None) -> None:
        assert self._transport is not None
        if asked is None:
            self._transport.write(_JSON)
            return
        self._left, self._interval = int(asked[1]), int(asked[2]) / 1000
        self._transport.write(_SSE_HEAD)
        if self._interval:
            self._due = self._loop.time()
            self._tick()
        else:
            self._pour()

    def _tick(self) -> None:
        """One chunk, and the next on time however late this one was."""
        if self._transport is None:
            return
        self._left -= 1
        self._transport.write(_DELTA if self._left else _LAST)
        if self._left:
            self._due += self._interval
            self._loop.call_at(self._due, self._tick)

    def _pour(self) -> None:
        while self._transport is not None and self._left > 0 and self._writable:
            burst = min(_BURST, self._left)
            self._left -= burst
            self._transport.write(_DELTA * burst if self._left else _DELTA * (burst - 1) + _LAST)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._pour()


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(FakeReplica, "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(_serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
