"""Logging: one line an event, to standard error."""

import logging
import sys
import time

import msgspec

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class Times:
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
    _times = Times()

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return self._times.text(record.created)


class _JSONFormatter(logging.Formatter):
    _times = Times()

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self._times.text(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


def configure(level: str, form: str) -> None:
    """Send the program's log to standard error. level: debug, info, warning or error. form: json or text."""
    # What the format does not show need not be looked up for each line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JSONFormatter() if form == "json" else _Formatter(_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    # One line for each request to a replica's /metrics would drown what matters.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("httpcore").setLevel(logging.WARNING)
    # And one for each change beside the configuration's file: of the log itself, if that is there.
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
