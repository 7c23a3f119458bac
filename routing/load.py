"""How busy an engine is: what gateways have in flight there, ours exactly, and what others have, as it reports."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Report(NamedTuple):
    """An engine's own figures, as last scraped from its `/metrics`."""

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    """share of the KV cache that running requests hold, 0 to 1; what is merely cached does not count"""


class Mark(NamedTuple):
    """Where the leases stood when a report was asked for."""

    in_flight: int
    begun: int


class UnderWay(NamedTuple):
    """Requests that have not ended, in the terms of `EngineLoad`."""

    in_flight: int = 0
    pending: int = 0
    pending_tokens: int = 0
    pending_pairs: int = 0
    context_tokens: int = 0


NOTHING_UNDER_WAY = UnderWay()


@dataclass(slots=True)
class EngineLoad:
    """Changed by leases, reports and other gateways; read by policies and the cost model.

    Requests of gateways that tell of theirs are counted as ours are.
    """

    in_flight: int = 0
    """requests of ours that have not ended, and of gateways that tell of theirs"""
    pending: int = 0
    """those of them without a first token yet"""
    pending_tokens: int = 0
    """prompt tokens that those have to prefill"""
    pending_pairs: int = 0
    """pairs of such a token and one that it looks back on: attention, most of a long prompt's prefill"""
    context_tokens: int = 0
    """prompt tokens of the ones that are past their first token"""
    begun: int = 0
    """requests of both so far"""
    elsewhere: UnderWay = NOTHING_UNDER_WAY
    """of all these, what other gateways have told of"""
    report: Report = field(default_factory=Report)
    others_running: int = 0
    """requests that run there and are not ours, as last reported"""
    others_waiting: int = 0
    """requests that wait there and are not ours, as last reported"""
    weight: float = 1.0
    """how much the engine takes, beside others; greater than 0"""

    @property
    def running(self) -> int:
        """Requests that are decoding there."""
        return self.in_flight - self.pending + self.others_running

    @property
    def ours(self) -> UnderWay:
        """What this gateway has there."""
        told = self.elsewhere
        return UnderWay(
            self.in_flight - told.in_flight,
            self.pending - told.pending,
            self.pending_tokens - told.pending_tokens,
            self.pending_pairs - told.pending_pairs,
            self.context_tokens - told.context_tokens,
        )

    def hear(self, elsewhere: UnderWay) -> None:
        """All that other gateways have there, in place of what they had."""
        before, self.elsewhere = self.elsewhere, elsewhere
        self.begun += max(0, elsewhere.in_flight - before.in_flight)
        self.in_flight += elsewhere.in_flight - before.in_flight
        self.pending += elsewhere.pending - before.pending
        self.pending_tokens += elsewhere.pending_tokens - before.pending_tokens
        self.pending_pairs += elsewhere.pending_pairs - before.pending_pairs
        self.context_tokens += elsewhere.context_tokens - before.context_tokens

    def mark(self) -> Mark:
        """To be taken before a report is asked for."""
        return Mark(self.in_flight, self.begun)

    def observe(self, report: Report, mark: Mark) -> None:
        """Take in what the engine reports.

        A request of ours may be in the report if it was in flight at any moment since it was asked for. What is more
        than those is somebody else's. So a report that is a second old never counts a request of ours that has ended.
        """
        ours = mark.in_flight + self.begun - mark.begun
        others = max(0, report.running + report.waiting - ours)
        self.report = report
        self.others_waiting = min(others, report.waiting)
        self.others_running = others - self.others_waiting
