"""How long a client's connection is waited for."""

import asyncio
from collections.abc import Callable

from gateway.relay.connections import Connections
from gateway.relay.timer import Deadline


class Patience:
    """One deadline at a time: for a next request, for its head, for its body.

    expired: called with the reason, or with None where nothing was begun.
    """

    __slots__ = ("_came", "_connections", "_deadline", "_expired", "_keep_alive", "_waits_for")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: Connections,
        keep_alive: float,
        expired: Callable[[str | None], None],
    ) -> None:
        self._connections = connections
        self._keep_alive = keep_alive
        self._expired: Callable[[str | None], None] | None = expired
        self._deadline = Deadline(loop, self._passed)
        self._waits_for: str | None = None
        self._came = 0

    def for_the_first(self) -> None:
        """Nothing has come yet."""
        self._deadline.set(min(self._keep_alive, self._connections.head))

    def for_the_next(self) -> None:
        """A request has been answered."""
        self._waits_for = None
        self._deadline.set(self._keep_alive)

    def for_a_head(self) -> None:
        """Some of a head has come and more is to come."""
        if self._waits_for != "head_time":
            self._waits_for = "head_time"
            self._deadline.set(self._connections.head)

    def for_a_body(self, came: int, *, paused: bool) -> None:
        """Some of a body has come and more is to come; while the socket is not read, time does not count."""
        begins = self._waits_for != "body_time"
        self._waits_for = "body_time"
        self._came = 0 if begins else self._came + came
        if paused:
            self._deadline.clear()
        elif begins or self._came >= Connections.BODY_STEP:
            self._came = 0
            self._deadline.set(self._connections.body)

    def resumed(self) -> None:
        """The socket is read again."""
        if self._waits_for == "body_time":
            self._deadline.set(self._connections.body)

    def satisfied(self) -> None:
        """A head or a body is complete."""
        if self._waits_for is not None:
            self._waits_for = None
            self._deadline.clear()

    def close(self) -> None:
        """Stop for good."""
        self._expired = None
        self._deadline.close()

    def _passed(self) -> None:
        if self._expired is not None:
            self._expired(self._waits_for)
