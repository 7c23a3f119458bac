"""How many requests may be sent a second time."""


class RetryBudget:
    """A share of the traffic, so that a fleet in trouble is not asked for more than when it was well.

    share: retries that each request pays for. reserve: retries that may be made at once; no more than that is saved.
    """

    def __init__(self, share: float, reserve: int) -> None:
        self._share = share
        self._reserve = float(reserve)
        self._left = self._reserve

    def request(self) -> None:
        """A request came."""
        if self._left < self._reserve:
            self._left = min(self._reserve, self._left + self._share)

    @property
    def left(self) -> bool:
        """Whether there is a retry to spend."""
        return self._left >= 1.0

    def spend(self) -> None:
        """Take one retry, of those that are left."""
        self._left -= 1.0
