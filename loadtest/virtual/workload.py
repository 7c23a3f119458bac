"""What is asked of a simulated fleet, and what came of it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol


class Ask(NamedTuple):
    """One request."""

    at: float
    """when it arrives, in seconds"""
    prompt: Sequence[int]
    """token ids"""
    output: Sequence[int]
    """the token ids that the model will say"""
    thread: int
    """whose turn it is: requests of one thread go on from one another"""
    session: str | None = None
    """what the client calls the thread, where it says"""


class Answered(NamedTuple):
    """A request that ended."""

    ask: Ask
    replica: int
    """who answered, by position"""
    ttft: float
    """seconds from arrival to the first token"""
    seconds: float
    """from arrival to the last"""
    cached: int
    """prompt tokens found in the engine's cache"""
    predicted_cached: int | None
    """as the gateway predicted them; None where it did not look"""
    predicted_ttft: float
    """as the gateway predicted it, seconds"""

    @property
    def itl(self) -> float:
        """Mean seconds between two tokens; 0 for a single one."""
        return (self.seconds - self.ttft) / max(1, len(self.ask.output) - 1)


class Workload(Protocol):
    """Where requests come from."""

    def start(self) -> Iterable[Ask]:
        """Those that come whatever is answered, in order of arrival."""
        ...

    def follow(self, answered: Answered, now: float) -> Iterable[Ask]:
        """Those that come because this one was answered; `at` >= now."""
        ...


class Open:
    """Requests that wait for nobody. asks: in order of arrival."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self._asks = asks

    def start(self) -> Iterable[Ask]:
        """All of them."""
        return self._asks

    def follow(self, answered: Answered, now: float) -> Iterable[Ask]:
        """None."""
        return ()
