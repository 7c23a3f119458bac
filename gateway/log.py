"""Logging: one line an event, to standard error."""

import logging
import sys
import time

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class _Formatter(logging.Formatter):
    """Writes UTC times to the second, and each second's text once: there is a line for every request."""

    _second = 0
    _text = ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        second = int(record.created)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
        return self._text


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
