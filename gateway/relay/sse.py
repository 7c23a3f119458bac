"""Looks at a stream of server-sent events on its way past."""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from gateway.relay.usage import Answer, Usage, read_answer

_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
_EVENT = re.compile(rb".*?(?:\n\n|\n\r\n|\r\r)|.+", re.DOTALL)
_LINE = re.compile(rb"\r\n|\n|\r")
_ERROR = re.compile(rb"(?:^|[\r\n])(?:event: ?error[\r\n]|data: ?\{\s*\"error\"\s*:)")
_USAGE = re.compile(rb"\"usage\"\s*:\s*\{")
_FINISH = b'"finish_reason":"'
_FINGERPRINT = b'"system_fingerprint":'
_MAX_EVENT = 1_048_576
"""Bytes of one event; a longer one is not looked at."""


class Form(NamedTuple):
    """What says how far a stream of one API is."""

    mark: bytes
    """in every read that says it is done"""
    done: re.Pattern[bytes]
    """the mark as such; looked for from a few bytes before it"""
    early: re.Pattern[bytes] | None = None
    """an event before anything was computed"""


CHAT = Form(b"[DONE]", re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][ \t]*(?:[\r\n]|$)"))
FORMS = {
    "/v1/messages": Form(b"event: message_stop", re.compile(rb"(?:^|[\r\n])event: message_stop[ \t]*[\r\n]")),
    "/v1/responses": Form(
        b"event: response.completed",
        re.compile(rb"(?:^|[\r\n])event: response\.completed[ \t]*[\r\n]"),
        re.compile(rb":|event: response\.(?:created|queued|in_progress)[ \t]*[\r\n]"),
    ),
}
"""By path, of the APIs whose streams are not as `CHAT`."""


class StreamTap:
    """Notes the last usage, an error, whether the engine has begun to answer, and whether it said it was done.

    feed: for each read; returns what goes to the client: the same bytes at once, unless `hide_usage`.
    finish: at the end; returns what was still held back.
    abandon: the stream broke off; returns what puts the client between two events.

    hide_usage: the gateway asked for the usage event and the client did not, so the stream becomes what it would have
    been. For vLLM that means: no event with usage and without choices; and the fingerprint, which that event carries,
    in each that ends a choice. So an event is held back until it is complete, and one that ends a choice until the
    next has come, which vLLM sends in the same breath.

    form: by what the stream says it is done; where it has early events, `begun` is False until another one has come.

    on_id: called once, with the id under which the engine keeps the answer, as soon as an event tells it.

    The cost is per read, a few searches for substrings. Of events with usage only the last is parsed.
    """

    __slots__ = ("_form", "_hide", "_mark", "_on_id", "_partial", "_with_usage", "begun", "done", "failed")

    def __init__(
        self, form: Form = CHAT, *, hide_usage: bool = False, on_id: Callable[[str], None] | None = None
    ) -> None:
        self._form = form
        self._mark = form.mark
        self.begun = form.early is None
        self.done = False
        self.failed = False
        self._hide = hide_usage
        self._on_id = on_id
        self._partial = bytearray()
        self._with_usage = b""

    @property
    def usage(self) -> Usage | None:
        """From the last event that has any."""
        counted = self.counted
        return counted.counts() if counted is not None else None

    @property
    def counted(self) -> Answer | None:
        """The last event that has a usage."""
        for event in reversed(_split(self._with_usage)):
            answer = _answer(event)
            if answer is not None and answer.counts() is not None:
                return answer
        return None

    def feed(self, data: bytes) -> bytes:
        events = self._complete(data) if self._partial or not data.endswith(_ENDS) else data
        if b'"usage"' in events or self._mark in events or b"error" in events:
            self._look(events)
        if not self.begun:
            self._look_for_the_first(events)
        if self._on_id is not None and b'"response"' in events:
            self._tell_id(events)
        if not self._hide:
            return data
        if _FINISH in events or b'"usage"' in events:
            return self._as_unasked(events)
        return events

    def finish(self) -> bytes:
        rest = bytes(self._partial)
        self._partial.clear()
        self._look(rest)
        return self._as_unasked(rest, wait=False) if self._hide else b""

    def abandon(self) -> bytes:
        if not self._hide:
            return b"\n\n" if self._partial else b""
        return self._complete(b"")

    def _complete(self, data: bytes) -> bytes:
        """Cut the complete events off what there is, now with `data` behind it."""
        partial = self._partial
        partial += data
        searched = max(0, len(partial) - len(data) - 2) if data else 0
        end = max(at + len(mark) if (at := partial.rfind(mark, searched)) >= 0 else 0 for mark in _ENDS)
        if len(partial) - end > _MAX_EVENT:
            end = len(partial)
        events = bytes(partial[:end])
        del partial[:end]
        return events

    def _look(self, events: bytes) -> None:
        if b'"usage"' in events and _USAGE.search(events):
            self._with_usage = events
        at = events.rfind(self._mark)
        if at >= 0 and self._form.done.search(events, max(0, at - len("\ndata: "))):
            self.done = True
        if b"error" in events and _ERROR.search(events):
            self.failed = True

    def _look_for_the_first(self, events: bytes) -> None:
        early = self._form.early
        self.begun = early is None or not all(map(early.match, _split(events)))

    def _tell_id(self, events: bytes) -> None:
        for event in _split(events):
            answer = _answer(event)
            if self._on_id is not None and answer is not None and answer.response and answer.response.id:
                self._on_id(answer.response.id)
                self._on_id = None

    def _as_unasked(self, events: bytes, *, wait: bool = True) -> bytes:
        """`events` as they would be if nobody had asked for usage.

        wait: more may come, so if the last one ends a choice it is put back.
        """
        kept: list[bytes] = []
        for event in _split(events):
            answer = _answer(event) if b'"usage"' in event else None
            if answer is None or answer.usage is None or answer.choices != []:
                kept.append(event)
                continue
            wait = False
            if answer.system_fingerprint is not None:
                kept = [_stamped(event, answer.system_fingerprint) for event in kept]
        if wait and kept and _FINISH in kept[-1]:
            self._partial[:0] = kept.pop()
        return b"".join(kept)


def _split(events: bytes) -> list[bytes]:
    """Event by event, each with its blank line."""
    if b"\r" in events:
        return _EVENT.findall(events)
    *complete, rest = events.split(b"\n\n")  # a hundred times as fast
    found = [event + b"\n\n" for event in complete]
    return [*found, rest] if rest else found


def _answer(event: bytes) -> Answer | None:
    """The JSON in the data lines of an event; None if there is none."""
    lines = [line[5:] for line in _LINE.split(event) if line.startswith(b"data:")]
    return read_answer(b"\n".join(lines))


def _stamped(event: bytes, fingerprint: str) -> bytes:
    """`event` with the fingerprint as its JSON's last member, where vLLM puts it, if it ends a choice."""
    if _FINISH not in event or _FINGERPRINT in event:
        return event
    end = event.rfind(b"}")
    return b"".join(
        (event[:end], b",", _FINGERPRINT, json.dumps(fingerprint, ensure_ascii=False).encode(), event[end:])
    )
