"""The one log line of each request."""

import asyncio
from collections.abc import Sequence
from typing import TextIO

import msgspec

from gateway.log import Times
from gateway.relay.record import Ended, Record

_HELD_SECONDS = 0.1


class _Line(msgspec.Struct, gc=False):
    """Never text, tokens or keys. Times but the first are seconds."""

    time: str
    level: str
    logger: str
    id: str
    model: str
    tenant: str
    path: str
    replica: str
    engine: int
    policy: str
    outcome: str
    status: int
    prompt: int | None
    completion: int | None
    cached: int | None
    predicted: int | None
    overhead: float
    ttft: float | None
    itl: float | None
    duration: float
    reason: str


class RequestLog:
    """The one line of each request, in the same form as all others (json or text), at level INFO.

    Lines are held for a tenth of a second and then made and written together: through `logging`, one by one, they would
    cost a fifth of what a request does. Belongs to the event loop.
    """

    def __init__(self, stream: TextIO, form: str) -> None:
        self._stream = stream
        self._text = _json if form == "json" else _plain
        self._times = Times()
        self._held: list[Record] = []

    def write(self, ended: Ended) -> None:
        """Add a request's line."""
        if not self._held:
            asyncio.get_running_loop().call_later(_HELD_SECONDS, self.flush)
        self._held.append(ended.record)

    def flush(self) -> None:
        """Write what is held."""
        held, self._held = self._held, []
        text = self._times.text
        self._stream.write(self._text([_line(text(record.at), record) for record in held]))
        self._stream.flush()


def _line(time: str, record: Record) -> _Line:
    decision, usage = record.decision, record.usage
    engine = decision.engine
    return _Line(
        time, "INFO", "kvgate.request", record.id, record.model, record.tenant, record.path, engine.replica,
        engine.rank, decision.policy, record.how, record.status,
        usage.prompt_tokens if usage is not None else None,
        usage.completion_tokens if usage is not None else None,
        usage.cached_tokens if usage is not None else None,
        decision.cached_tokens,
        _short(record.overhead),
        None if record.ttft is None else _short(record.ttft),
        None if record.itl is None else _short(record.itl),
        _short(record.duration),
        decision.reason,
    )  # fmt: skip


def _short(seconds: float) -> float:
    """To the microsecond; `round` takes ten times as long."""
    return int(seconds * 1e6 + 0.5) / 1e6


def _json(lines: Sequence[_Line]) -> str:
    return msgspec.json.Encoder().encode_lines(lines).decode()


def _plain(lines: Sequence[_Line]) -> str:
    return "".join(map(_plain_line, lines))


def _plain_line(line: _Line) -> str:
    time, level, logger, *fields = msgspec.structs.asdict(line).items()
    return f"{time[1]} {level[1]} {logger[1]} {' '.join(f'{key}={value}' for key, value in fields)}\n"
