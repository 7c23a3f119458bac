"""When a replica that fails is left alone, and how it comes back: a state machine without a clock."""

from enum import Enum
from typing import NamedTuple


class Fault(Enum):
    """How a request failed at a replica."""

    CONNECTION = "connection"
    """it could not be reached, so the request itself has no part in it"""
    APPLICATION = "application"
    """it answered 5xx, broke off or was silent; the request may be what did it"""


class BreakerState(Enum):
    CLOSED = "closed"
    """takes requests"""
    OPEN = "open"
    """rests"""
    HALF_OPEN = "half_open"
    """gets one request at a time, until one succeeds"""


class BreakerRules(NamedTuple):
    """When a breaker opens and for how long.

    failures: different requests in a row that failed. connections: attempts to connect in a row that failed.
    rest: seconds until a trial, doubled for each trial that fails, up to longest_rest.
    """

    failures: int = 5
    connections: int = 2
    rest: float = 5.0
    longest_rest: float = 60.0


class Breaker:
    """One replica's. Times are seconds of any one clock.

    A request that fails counts once however often it is sent: one that makes every engine fail says nothing of them.
    What is neither a failure nor a success (4xx, 429, 503, a client that left) is not reported here at all.
    """

    def __init__(self, rules: BreakerRules) -> None:
        self._rules = rules
        self._failed: set[int] = set()
        self._refused = 0
        self._rest = rules.rest
        self._cause: Fault | None = None
        self._ready_at = 0.0
        self._on_trial = False

    def state(self, now: float) -> BreakerState:
        """What holds at `now`."""
        if self._cause is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._ready_at else BreakerState.HALF_OPEN

    def admits(self, now: float) -> bool:
        """Whether a request may go there."""
        return self._cause is None or (now >= self._ready_at and not self._on_trial)

    @property
    def failing(self) -> bool:
        """At least half of the failures that open it are held against the replica, or it is not closed."""
        return self._cause is not None or 2 * len(self._failed) >= self._rules.failures

    @property
    def clean(self) -> bool:
        """Nothing is held against the replica, so this object need not be kept."""
        return self._cause is None and not self._failed and not self._refused and self._rest == self._rules.rest

    def begin(self) -> bool:
        """A request goes there. Returns whether it is a trial, whose end `end_trial` is to be told."""
        self._on_trial = self._cause is not None
        return self._on_trial

    def end_trial(self) -> None:
        """The trial is over; what it showed is reported on its own."""
        self._on_trial = False

    def fail(self, fault: Fault, request: int, now: float, *, trial: bool = False, spare: bool = False) -> bool:
        """A request failed.

        request: the same number for the same request. trial: as `begin` said. spare: it must not open for this.
        Returns whether it opened just now. What was sent before it opened and fails after says nothing new.
        """
        if self._cause is not None:
            if trial:
                self._rest = min(2 * self._rest, self._rules.longest_rest)
                self._open(fault, now)
            return trial
        if fault is Fault.CONNECTION:
            self._refused += 1
            full = self._refused >= self._rules.connections
        else:
            if len(self._failed) < self._rules.failures:
                self._failed.add(request)
            full = len(self._failed) >= self._rules.failures
        if full and not spare:
            self._open(fault, now)
        return full and not spare

    def reachable(self, now: float) -> None:
        """A probe was answered: what opened because nobody could connect has rested enough, the first time."""
        self._refused = 0
        if self._cause is Fault.CONNECTION and self._rest == self._rules.rest:
            self._ready_at = min(self._ready_at, now)

    def answer(self, *, trial: bool = False) -> bool:
        """A request is being answered well. Returns whether that closes it."""
        closes = trial and self._cause is not None
        if closes:
            self._cause = None
        return closes

    def succeed(self) -> None:
        """A request was answered well to its end."""
        if self._cause is None:
            self._failed.clear()
            self._refused = 0
            self._rest = self._rules.rest

    def _open(self, fault: Fault, now: float) -> None:
        self._cause = fault
        self._ready_at = now + self._rest
        self._on_trial = False
        self._failed.clear()
        self._refused = 0
