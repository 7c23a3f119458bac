"""A deadline that moves with every read and hardly ever passes."""

import asyncio
from collections.abc import Callable
from math import inf


class Deadline:
    """Calls `expired` once the time set last has passed.

    Setting a timer of the loop for each read would cost more than the read itself. One timer is left running instead;
    when it fires too early it is set again for what is left. Close it in the end: it and whom it calls hold each other.
    """

    __slots__ = ("_at", "_expired", "_fires_at", "_handle", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired: Callable[[], None] | None = expired
        self._at = inf
        self._fires_at = inf
        self._handle: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Move the deadline to `seconds` from now."""
        self._at = at = self._loop.time() + seconds
        if at < self._fires_at:
            self._run_until(at)

    def clear(self) -> None:
        """Nothing is due until the next `set`."""
        self._at = inf

    def close(self) -> None:
        """Stop for good."""
        self._at = inf
        self._expired = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run_until(self, at: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._fires_at = at
        self._handle = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self._fires_at = inf
        if self._at == inf:
            return
        if self._at > self._loop.time():
            self._run_until(self._at)
            return
        self._at = inf
        if self._expired is not None:
            self._expired()
