"""Whether shared storage may be asked and believed, and if not, why."""

from collections import deque
from collections.abc import Iterable
from enum import StrEnum


class Off(StrEnum):
    """Why shared storage does not count. The closed set of values of the metric's `reason` label."""

    SLOW = "slow"
    """look-ups in a row failed or were not answered in time: the breaker is open"""
    UNREADABLE = "unreadable"
    """files are there but can't be read"""
    FALSE_HINTS = "false_hints"
    """too much of what was promised did not come"""


class Switch:
    """Off while there is any reason to be."""

    def __init__(self) -> None:
        self._reasons: set[Off] = set()

    def __bool__(self) -> bool:
        return not self._reasons

    @property
    def reasons(self) -> Iterable[Off]:
        """Why it is off; none while it is on."""
        return sorted(self._reasons)

    def set(self, reason: Off, off: bool) -> bool:
        """Turn it off or on again for a reason. Returns whether that changed anything."""
        if off == (reason in self._reasons):
            return False
        self._reasons ^= {reason}
        return True


class Breaker:
    """Opens after failures in a row; whoever looks after it closes it again."""

    def __init__(self, failures: int) -> None:
        """failures: in a row, > 0."""
        self._most = failures
        self._count = 0

    @property
    def open(self) -> bool:
        return self._count >= self._most

    def failed(self) -> None:
        """A look-up failed or was late."""
        self._count += 1

    def worked(self) -> None:
        """A look-up, or the test of an open breaker, was answered in time."""
        self._count = 0


class HintRecord:
    """How often what was promised came: of the latest hints."""

    def __init__(self, level: float, least: int = 10, kept: int = 50) -> None:
        """level: share of false hints, 0 to 1, above which none is to be believed. least: hints needed to tell."""
        self._level = level
        self._least = least
        self._false: deque[bool] = deque(maxlen=kept)

    @property
    def false_ratio(self) -> float:
        """Share of the latest hints that were false; 0 without any."""
        return sum(self._false) / len(self._false) if self._false else 0.0

    @property
    def bad(self) -> bool:
        """Whether hints are not to be believed."""
        return len(self._false) >= self._least and self.false_ratio > self._level

    def add(self, false: bool) -> None:
        self._false.append(false)

    def clear(self) -> None:
        self._false.clear()
