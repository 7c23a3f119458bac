"""Whether Redis can be asked."""

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

FAILURES = 3
"""exchanges in a row that failed until Redis counts as down; a slow one is as bad as a dead one"""


class Health:
    """A breaker that opens by what requests see, and closes when Redis answers a question of its own again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """clock: seconds, monotonic."""
        self._clock = clock
        self._failures = 0
        self.up = True
        self.outages = 0
        self.since = clock()
        """when `up` last changed"""
        self.reason = ""
        """why it is down"""

    def recent(self, seconds: float) -> bool:
        """Whether Redis was down so lately."""
        return self.outages > 0 and self._clock() - self.since < seconds

    def failed(self, why: str, *, surely: bool = False) -> None:
        """An exchange had no answer in time. surely: it can have none, as when the connection is refused."""
        self._failures += 1
        if self.up and (surely or self._failures >= FAILURES):
            self.up, self.since, self.reason = False, self._clock(), why
            self.outages += 1
            logger.error("the index in Redis can't be asked, routing goes on by what is known here: %s", why)

    def worked(self) -> None:
        """An exchange had its answer."""
        self._failures = 0
        if not self.up:
            logger.warning("the index in Redis answers again after %.1f s", self._clock() - self.since)
            self.up, self.since, self.reason = True, self._clock(), ""
