"""A server that answers as `words` says: `python -m loadtest.endure.engine --port P [--idle SECONDS]`."""

import argparse
import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any

import uvloop

from loadtest.endure.words import MODEL, answer

_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Engine:
    """Answers chats, as many as come. idle: seconds after which a connection on which nothing comes is closed."""

    def __init__(self, idle: float | None) -> None:
        self._idle = idle

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            while True:
                async with asyncio.timeout(self._idle):
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                at = head.find(b"content-length: ")
                length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
                await _serve(head, await reader.readexactly(length), writer)
        writer.close()


async def _serve(head: bytes, raw: bytes, writer: asyncio.StreamWriter) -> None:
    method, path, _ = head.split(b" ", 2)
    if method == b"get":
        models = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
        found = path in (b"/health", b"/v1/models", b"/metrics")
        _write(writer, b"200 OK" if found else b"404 Not Found", models if path == b"/v1/models" else {})
    elif path != b"/v1/chat/completions":
        _write(writer, b"404 Not Found", {})
    else:
        await _answer(json.loads(raw), writer)
    await writer.drain()


def _write(writer: asyncio.StreamWriter, status: bytes, value: Mapping[str, Any]) -> None:
    body = json.dumps(value).encode()
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
    writer.write(head + body)


async def _answer(body: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
    words = answer(body)
    if not body["stream"]:
        message = {"role": "assistant", "content": "".join(words)}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        _write(writer, b"200 OK", {"id": body["user"], "choices": choices, "usage": _USAGE})
        return
    pace = body["metadata"]["pace_ms"] / 1000
    writer.write(_HEAD)
    for word in words:
        event = {"id": body["user"], "choices": [{"index": 0, "delta": {"content": word}}]}
        writer.write(_chunk(b"data: %b\n\n" % json.dumps(event).encode()))
        if pace:
            await asyncio.sleep(pace)
        await writer.drain()
    if body.get("stream_options"):
        usage = {"id": body["user"], "choices": [], "usage": _USAGE}
        writer.write(_chunk(b"data: %b\n\n" % json.dumps(usage).encode()))
    writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _run(port: int, idle: float | None) -> None:
    server = await asyncio.start_server(Engine(idle).accept, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--idle", type=float)
    arguments = parser.parse_args()
    uvloop.run(_run(arguments.port, arguments.idle))


if __name__ == "__main__":
    main()
