"""Logging: one line an event, to standard error."""

import asyncio
import logging
import sys
import time
from typing import TextIO

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_HELD_SECONDS = 0.1


class _Times:
    """UTC times to the second; each second's text is made once, since there is a line for every request."""

    _second = 0
    _text = ""

    def text(self, created: float) -> str:
        """created: seconds since the epoch."""
        second = int(created)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
        return self._text


class _Formatter(logging.Formatter):
    _times = _Times()

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return self._times.text(record.created)


def configure(level: str) -> None:
    """Send the program's log to standard error. level: debug, info, warning or error."""
    # What the format does not show need not be looked up for each line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    # One line for each request to a replica's /metrics would drown what matters.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("httpcore").setLevel(logging.WARNING)
    # And one for each change beside the configuration's file: of the log itself, if that is there.
    logging.getLogger("watchfiles").setLevel(logging.WARNING)


class RequestLog:
    """The one line of each request, in the same form as all others, at level INFO.

    Lines are held for a tenth of a second and written together: through `logging`, one by one, they would cost a fifth
    of what a request does. Belongs to the event loop.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._times = _Times()
        self._lines: list[str] = []

    def write(self, message: str) -> None:
        """Add a line."""
        if not self._lines:
            asyncio.get_running_loop().call_later(_HELD_SECONDS, self.flush)
        self._lines.append(f"{self._times.text(time.time())} INFO kvgate.request {message}\n")

    def flush(self) -> None:
        """Write what is held."""
        lines, self._lines = self._lines, []
        self._stream.write("".join(lines))
        self._stream.flush()
