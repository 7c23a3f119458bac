"""The one log line of each request."""

import asyncio
import time
from typing import TextIO

import msgspec

from gateway.log import Times
from gateway.relay.account import Ended

_HELD_SECONDS = 0.1


class RequestLog:
    """The one line of each request, in the same form as all others (json or text), at level INFO.

    Lines are held for a tenth of a second and written together: through `logging`, one by one, they would cost a fifth
    of what a request does. Belongs to the event loop.
    """

    def __init__(self, stream: TextIO, form: str) -> None:
        self._stream = stream
        self._line = _json if form == "json" else _text
        self._times = Times()
        self._lines: list[str] = []

    def write(self, ended: Ended) -> None:
        """Add a request's line."""
        if not self._lines:
            asyncio.get_running_loop().call_later(_HELD_SECONDS, self.flush)
        self._lines.append(self._line(self._times.text(time.time()), ended))

    def flush(self) -> None:
        """Write what is held."""
        lines, self._lines = self._lines, []
        self._stream.write("".join(lines))
        self._stream.flush()


def _fields(ended: Ended) -> dict[str, object]:
    """Never text, tokens or keys."""
    inbound, decision, usage = ended.inbound, ended.decision, ended.outcome.usage
    return {
        "id": inbound.id,
        "model": inbound.model,
        "tenant": inbound.tenant,
        "path": inbound.client.path,
        "replica": decision.engine.replica,
        "engine": decision.engine.rank,
        "policy": decision.policy,
        "outcome": ended.how,
        "status": ended.outcome.status,
        "prompt": usage.prompt_tokens if usage else None,
        "completion": usage.completion_tokens if usage else None,
        "cached": usage.cached_tokens if usage else None,
        "predicted": decision.cached_tokens,
        "overhead": round(ended.overhead, 6),
        "ttft": None if ended.ttft is None else round(ended.ttft, 4),
        "itl": None if ended.itl is None else round(ended.itl, 5),
        "duration": round(ended.duration, 4),
        "reason": decision.reason,
    }


def _json(time: str, ended: Ended) -> str:
    line = {"time": time, "level": "INFO", "logger": "kvgate.request", **_fields(ended)}
    return msgspec.json.encode(line).decode() + "\n"


def _text(time: str, ended: Ended) -> str:
    return f"{time} INFO kvgate.request {' '.join(f'{key}={value}' for key, value in _fields(ended).items())}\n"
