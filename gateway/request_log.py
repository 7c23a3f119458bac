"""The one log line of each request."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from gateway.log import Times
from gateway.log_line import Taker, read, unanswered
from gateway.relay.record import Record

_HELD_SECONDS = 0.1


class RequestLog:
    """The one line of each request, in the same form as all others (json or text), at level INFO.

    Lines are held for a tenth of a second and then written together: through `logging`, one by one, they would cost a
    fifth of what a request does. Belongs to the event loop.
    """

    def __init__(self, stream: BinaryIO, form: str) -> None:
        self._stream = stream
        self._plain = form != "json"
        self._held: list[bytes] = []
        self._times = Times()
        logged = logging.getLogger("kvgate.request").isEnabledFor(logging.INFO)
        self.takers: Sequence[Taker] = [self.write] if logged else []
        """for `LogLines`: none where the log leaves out what is INFO"""

    def unanswered(
        self, id: str, model: str, tenant: str, path: str, how: str, status: int, duration: float, reason: str
    ) -> None:
        """Add the line of a request that no replica's answer came back for. For the arguments see `log_line`."""
        if self.takers:
            at = self._times.text(time.time())
            self.write(None, unanswered(at, id, model, tenant, path, how, status, duration, reason))

    def write(self, record: Record | None, line: bytes) -> None:
        """Add a request's line."""
        if not self._held:
            asyncio.get_running_loop().call_later(_HELD_SECONDS, self.flush)
        self._held.append(line)

    def flush(self) -> None:
        """Write what is held."""
        held, self._held = self._held, []
        lines = [_plain(line) for line in held] if self._plain else held
        self._stream.write(b"\n".join([*lines, b""]))
        self._stream.flush()


def _plain(line: bytes) -> bytes:
    time, level, logger, *fields = msgspec.structs.asdict(read(line)).items()
    return f"{time[1]} {level[1]} {logger[1]} {' '.join(f'{key}={value}' for key, value in fields)}".encode()
