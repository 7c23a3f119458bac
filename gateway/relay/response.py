"""Passes a replica's answer to the client."""

import asyncio
import json
from collections.abc import Callable
from enum import Enum

import msgspec

from gateway.errors import UpstreamError, UpstreamTimeout
from gateway.relay.client import Client
from gateway.relay.headers import response_headers
from gateway.relay.sse import CHAT, FORMS, StreamTap
from gateway.relay.upstream import RawHeaders, UpstreamResponse
from gateway.relay.usage import Answer, Usage, read_answer

WHOLE_BYTES = 1_048_576
"""Up to here an answer that is no stream is sent in one piece, so that one which breaks off can still become a 502."""
_ANTHROPICS = "/v1/messages"
"""Path of the one API whose streams are not of OpenAI's form."""


class Ending(Enum):
    COMPLETE = "complete"
    CLIENT_GONE = "client_gone"
    UPSTREAM_BROKEN = "upstream_broken"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    GATEWAY_STOPPED = "gateway_stopped"


_BROKEN = (502, "The replica's answer broke off.")
_TOLD = {
    Ending.UPSTREAM_TIMEOUT: (504, "The replica did not go on in time."),
    Ending.GATEWAY_STOPPED: (503, "The gateway stops."),
}
"""What a client is told inside its stream"""


class Outcome(msgspec.Struct, frozen=True):
    """How an exchange went once the replica had answered.

    first_byte_at: by the relay's clock; of a stream its first event that was computed, None if nothing came.
    sent: bytes of body handed to the client's connection.
    failed: the stream itself reported an error. done: it said so. Both False for what is not a stream.
    """

    ending: Ending
    status: int
    sent: int
    first_byte_at: float | None
    usage: Usage | None
    failed: bool
    done: bool


class Relay:
    """One answer on its way from a replica to a client. Owns the upstream response and closes it however it ends."""

    def __init__(
        self,
        upstream: UpstreamResponse,
        client: Client,
        clock: Callable[[], float],
        *,
        extra: RawHeaders = (),
        hide_usage: bool = False,
        on_first_byte: Callable[[float], None] | None = None,
        on_id: Callable[[str], None] | None = None,
        counts: bool = True,
    ) -> None:
        """extra: headers of the gateway, names in lower case. hide_usage: see `StreamTap`.

        on_first_byte: called with the time when the first byte of a body comes.
        on_id: called with the id under which the engine may keep the answer, once that is known.
        counts: whether the usage that the answer tells is what this request took.
        """
        self._upstream = upstream
        self._client = client
        self._clock = clock
        self._on_first_byte = on_first_byte
        self._on_id = on_id
        self._counts = counts
        self._first_byte_at: float | None = None
        self._answer: Answer | None = None
        self._sent = 0
        self._headers = response_headers(upstream.headers, extra=extra)
        fields = dict(self._headers)
        kind, plain = fields.get(b"content-type", b"").lower(), b"content-encoding" not in fields
        streams = kind.startswith(b"text/event-stream")
        form = FORMS.get(client.path, CHAT) if plain else CHAT
        self._tap = StreamTap(form, hide_usage=hide_usage and plain, on_id=on_id) if streams else None
        if hide_usage and self._tap is not None:
            self._headers = [pair for pair in self._headers if pair[0] != b"content-length"]
        self._readable = plain and kind.startswith(b"application/json") and upstream.status == 200

    async def run(self) -> Outcome:
        """To be run inside the client's `ClientWatch`. Cancelled otherwise, the gateway stops.

        Raises UpstreamError if the answer breaks off before anything was sent to the client, and is cancelled then.

        Where it breaks off later, a stream is ended with an event that says so; of anything else the end is missing,
        and the server closes the client's connection because the response was not completed.
        """
        try:
            ending, rest = await (self._pass_whole() if self._tap is None else self._pass_stream(self._tap))
        except asyncio.CancelledError:
            if not self._client.gone:
                raise
            return self._outcome(Ending.CLIENT_GONE)
        finally:
            self._upstream.close()
        if rest is not None and ending is not Ending.CLIENT_GONE:
            self._write(rest, more=False)
        return self._outcome(ending)

    async def _pass_stream(self, tap: StreamTap) -> tuple[Ending, bytes | None]:
        upstream, client, clock = self._upstream, self._client, self._clock
        look, write = tap.feed, client.write

        def take(data: bytes) -> bool:
            data = look(data)
            if self._first_byte_at is None and tap.begun:
                self._note_first_byte(clock())
            if not data:
                return True
            self._sent += len(data)
            return write(data, more=True)

        self._start()
        if not upstream.buffered:
            client.write(b"", more=True)  # sends the head: the first event may be far off
        try:
            await client.drain()
            while (rest := await upstream.pour(take)) is None:
                await client.drain()
        except (UpstreamError, asyncio.CancelledError) as exc:
            ending = self._ending_of(exc)
            return ending, tap.abandon() + _error_event(ending, client.path)
        if rest and self._first_byte_at is None:
            self._note_first_byte(clock())
        return Ending.COMPLETE, tap.feed(rest) + tap.finish()

    async def _pass_whole(self) -> tuple[Ending, bytes | None]:
        upstream = self._upstream
        body = upstream.rest() if upstream.ended else await upstream.read()
        if body:
            self._note_first_byte(self._clock())
        if not upstream.ended:
            body = await self._collect(body)
        self._start()
        if upstream.ended:
            self._answer = read_answer(body) if self._readable else None
            if self._on_id is not None and self._answer is not None and self._answer.id:
                self._on_id(self._answer.id)
            return Ending.COMPLETE, body
        self._write(body, more=True)
        try:
            while not upstream.ended:
                await self._client.drain()
                self._write(await upstream.read(), more=True)
        except (UpstreamError, asyncio.CancelledError) as exc:
            return self._ending_of(exc), None
        return Ending.COMPLETE, b""

    async def _collect(self, begun: bytes) -> bytes:
        """The body as far as it is kept: up to its end, or until it is too long for that."""
        parts, size = [begun], len(begun)
        while not self._upstream.ended and size <= WHOLE_BYTES:
            parts.append(await self._upstream.read())
            size += len(parts[-1])
        return b"".join(parts)

    def _start(self) -> None:
        self._client.start(self._upstream.status, self._headers)

    def _write(self, data: bytes, *, more: bool) -> None:
        self._sent += len(data)
        self._client.write(data, more=more)

    def _note_first_byte(self, now: float) -> None:
        self._first_byte_at = now
        if self._on_first_byte is not None:
            self._on_first_byte(now)

    def _ending_of(self, exc: UpstreamError | asyncio.CancelledError) -> Ending:
        if isinstance(exc, UpstreamError):
            return Ending.UPSTREAM_TIMEOUT if isinstance(exc, UpstreamTimeout) else Ending.UPSTREAM_BROKEN
        return Ending.CLIENT_GONE if self._client.gone else Ending.GATEWAY_STOPPED

    def _outcome(self, ending: Ending) -> Outcome:
        tap = self._tap
        answer = self._answer if tap is None else tap.counted
        return Outcome(
            ending,
            self._upstream.status,
            self._sent,
            self._first_byte_at,
            answer.counts() if self._counts and answer is not None else None,
            tap is not None and tap.failed,
            tap is not None and tap.done,
        )


def _error_event(ending: Ending, path: str) -> bytes:
    """An error inside a stream, as OpenAI's clients understand it, or Anthropic's, who go by the event's name."""
    code, message = _TOLD.get(ending, _BROKEN)
    if path == _ANTHROPICS:
        said = {"type": "error", "error": {"type": "api_error", "message": message}}
        return b"event: error\ndata: %b\n\n" % json.dumps(said).encode()
    body = {"error": {"message": message, "type": "upstream_error", "param": None, "code": code}}
    return b"data: %b\n\n" % json.dumps(body).encode()
