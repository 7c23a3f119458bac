"""A rate limit: so many a minute, with a minute's worth at once."""

_MINUTE = 60.0


class Bucket:
    """Refills evenly; holds at most what one minute brings. It may be overdrawn by what was found out later.

    per_minute: > 0. Times are seconds of any one clock.
    """

    __slots__ = ("_at", "_left", "per_minute")

    def __init__(self, per_minute: int, now: float) -> None:
        self.per_minute = per_minute
        self._left = float(per_minute)
        self._at = now

    def wait(self, amount: float, now: float) -> float:
        """Seconds until `amount` may be taken; 0.0 if it may be now. More than a minute's worth needs a full bucket."""
        self._refill(now)
        wanted = min(amount, self.per_minute)
        return max(0.0, (wanted - self._left) / self.per_minute * _MINUTE)

    def take(self, amount: float, now: float) -> None:
        """Take it, whether it is there or not; a negative amount is given back."""
        self._refill(now)
        self._left = min(self.per_minute, self._left - amount)

    def change(self, per_minute: int, now: float) -> None:
        """Another rate from now on. What has been taken stays taken."""
        self._refill(now)
        self.per_minute = per_minute
        self._left = min(per_minute, self._left)

    def _refill(self, now: float) -> None:
        self._left = min(self.per_minute, self._left + (now - self._at) / _MINUTE * self.per_minute)
        self._at = now
