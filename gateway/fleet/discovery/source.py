"""What tells where the replicas are, and how it is counted when it fails to."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from gateway.config import ReplicaConfig

Tell = Callable[[Iterable[ReplicaConfig]], None]
"""Takes all replicas that a source knows of, each time something changed."""


@dataclass(slots=True)
class Reports:
    """How a source is doing, by the parts that it asks for; changed by the source, read by whoever asks."""

    faults: Counter[str] = field(default_factory=Counter)
    """by kind"""
    troubles: dict[str, str] = field(default_factory=dict)
    """why a part can't be had now; what was told last stays"""
    successes: dict[str, float] = field(default_factory=dict)
    """when each part last had an answer, in seconds since the epoch"""

    @property
    def trouble(self) -> str | None:
        """Why something can't be had now; None if all is well."""
        return "; ".join(f"{part}: {why}" for part, why in sorted(self.troubles.items())) or None

    @property
    def last_success(self) -> float | None:
        """Since when something may have been missed: the oldest of the parts' last answers."""
        return min(self.successes.values(), default=None)

    def succeeded(self, part: str, now: float) -> None:
        """There is an answer. now: seconds since the epoch."""
        self.troubles.pop(part, None)
        self.successes[part] = now

    def failed(self, part: str, kind: str, why: str) -> bool:
        """There is none. Returns whether that is news."""
        self.faults[kind] += 1
        news = self.troubles.get(part) != why
        self.troubles[part] = why
        return news


class Source(Protocol):
    """One place that knows replicas."""

    name: str
    """what it is in logs and metrics, unique"""
    reports: Reports

    async def run(self, tell: Tell) -> None:
        """Tell until cancelled. While it has no answer it tells nothing: what was told last stays."""
        ...


@dataclass(frozen=True, slots=True)
class Backoff:
    """Growing pauses between attempts, each drawn between half and whole so that gateways don't come all at once."""

    first: float
    """seconds"""
    most: float
    random: Random

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row; after none the first pause."""
        whole = min(self.most, self.first * 2.0 ** min(failures, 30))
        return whole * self.random.uniform(0.5, 1.0)
