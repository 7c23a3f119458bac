"""Joins the head of an answer and the first part of its body into one write to the client."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Cork(asyncio.Transport):
    """A transport that holds a response's head back until more is written, at most to the end of this turn of the loop.

    uvicorn writes head and body apart and uvloop sends each at once. A write is the dearest thing that happens to a
    short answer, so doing with one less is a tenth of the whole.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        held = self._held
        if held:
            self._held = b""
            self._transport.write(b"".join((held, data)))
        elif bytes(data[:7]) == b"HTTP/1.":
            self._held = bytes(data)
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._held = b""
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)


class CorkedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a `Cork` on its connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(Cork(cast(asyncio.Transport, transport), self.loop))
