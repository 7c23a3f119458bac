"""A client that reads every answer and says whether it is the right one."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import cast

import httptools

from loadtest.endure.words import expected, request

TIMEOUT = 60.0


class Leaves(Enum):
    """Where a client hangs up."""

    IN_REQUEST = "in its request"
    WAITING = "while it waits"
    IN_ANSWER = "in the answer"


@dataclass
class Tally:
    """What came of requests. errors: by what was seen."""

    right: int = 0
    wrong: int = 0
    left: int = 0
    errors: Counter[str] = field(default_factory=Counter)


class Line(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.parts: list[bytes] = []
        self._began = self._ended = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)

    @property
    def usable(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def send(self, data: bytes) -> tuple[asyncio.Future[None], asyncio.Future[None]]:
        """Returns what is done when the answer's body begins, and when it has ended."""
        loop = asyncio.get_running_loop()
        self.parts = []
        self._began, self._ended = loop.create_future(), loop.create_future()
        assert self.transport is not None
        self.transport.write(data)
        return self._began, self._ended

    def status(self) -> int:
        """Of the last answer."""
        return int(self._parser.get_status_code())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self.parts.append(data)
        if not self._began.done():
            self._began.set_result(None)

    def on_message_complete(self) -> None:
        for future in (self._began, self._ended):
            if not future.done():
                future.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self._began, self._ended):
            if not future.done():
                future.cancel()


class Client:
    """Sends one request after the other on a connection that it keeps; a new one where it has hung up."""

    def __init__(self, port: int, tally: Tally) -> None:
        self.port = port
        self._tally = tally
        self._line: Line | None = None

    async def ask(
        self, nonce: str, tokens: int, filler: int, *, stream: bool, leaves: Leaves | None = None, pace_ms: int = 0
    ) -> None:
        """Send a request and judge its answer."""
        tally = self._tally
        body = request(nonce, tokens, filler, stream=stream, pace_ms=pace_ms)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        try:
            async with asyncio.timeout(TIMEOUT):
                line = await self._connected()
                if leaves is Leaves.IN_REQUEST:
                    line.send(head + body[: len(body) // 2])
                    await asyncio.sleep(0)
                else:
                    began, ended = line.send(head + body)
                    if leaves is None:
                        await ended
                        self._judge(line, expected(nonce, tokens), stream)
                        return
                    if leaves is Leaves.IN_ANSWER:
                        await began
                self.hang_up()
                tally.left += 1
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            tally.errors["broke off"] += 1
            self.hang_up()
        except (TimeoutError, OSError, httptools.HttpParserError) as exc:
            tally.errors[type(exc).__name__] += 1
            self.hang_up()

    def hang_up(self) -> None:
        """Cut the connection."""
        if self._line is not None and self._line.transport is not None:
            self._line.transport.abort()
        self._line = None

    async def _connected(self) -> Line:
        if self._line is None or not self._line.usable:
            _, self._line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", self.port)
        return self._line

    def _judge(self, line: Line, words: list[str], stream: bool) -> None:
        raw = b"".join(line.parts)
        if line.status() != 200:
            self._tally.errors[_code(raw) or str(line.status())] += 1
        elif stream and (code := _code(raw.strip().rpartition(b"\n\ndata: ")[2])):
            self._tally.errors[f"{code} in a stream"] += 1
        elif (_streamed(raw) if stream else _whole(raw)) == words:
            self._tally.right += 1
        else:
            self._tally.wrong += 1


def _whole(raw: bytes) -> list[str]:
    text: str = json.loads(raw)["choices"][0]["message"]["content"]
    return [word + " " for word in text.split()]


def _streamed(raw: bytes) -> list[str]:
    """The words of a stream that ends as it should; none of another."""
    *events, done, rest = raw.decode().split("\n\n")
    if (done, rest) != ("data: [DONE]", ""):
        return []
    return [json.loads(event.removeprefix("data: "))["choices"][0]["delta"]["content"] for event in events]


def _code(raw: bytes) -> str | None:
    """Of an error in OpenAI's form."""
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    error = value.get("error") if isinstance(value, dict) else None
    return str(error["code"]) if isinstance(error, dict) else None
