"""How busy an engine is: what we have in flight there, exactly, and what others have there, as the engine reports."""

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


@dataclass(slots=True)
class EngineLoad:
    """Changed by leases and reports; read by policies and the cost model."""

    in_flight: int = 0
    """requests of ours that have not ended"""
    pending: int = 0
    """those of them without a first token yet"""
    pending_tokens: int = 0
    """prompt tokens that those have to prefill"""
    pending_pairs: int = 0
    """pairs of such a token and one that it looks back on: attention, most of a long prompt's prefill"""
    context_tokens: int = 0
    """prompt tokens of the ones that are past their first token"""
    begun: int = 0
    """requests of ours so far"""
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
