"""Leaving a replica alone after it failed several times in a row."""

from collections.abc import Callable


class Breaker:
    """Counts failures per replica."""

    def __init__(self, clock: Callable[[], float], *, failures: int, pause: float) -> None:
        """clock: seconds, monotonic. failures: in a row, > 0. pause: seconds."""
        self._clock = clock
        self._failures = failures
        self._pause = pause
        self._failed: dict[str, tuple[int, float]] = {}

    def allows(self, replica: str) -> bool:
        """Whether the replica may be asked; once in each pause it may be tried."""
        count, last = self._failed.get(replica, (0, 0.0))
        if count < self._failures:
            return True
        if self._clock() - last < self._pause:
            return False
        self._failed[replica] = (count, self._clock())
        return True

    def failed(self, replica: str) -> None:
        """It did not answer, or not sensibly."""
        count, _ = self._failed.get(replica, (0, 0.0))
        self._failed[replica] = (count + 1, self._clock())

    def worked(self, replica: str) -> None:
        """It answered."""
        self._failed.pop(replica, None)

    def forget(self, replica: str) -> None:
        """Start anew."""
        self._failed.pop(replica, None)
