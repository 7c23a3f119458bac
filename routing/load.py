"""How busy an engine is: what gateways have in flight there, ours exactly, and what others have, as it reports."""

from dataclasses import dataclass, field
from typing import NamedTuple

from routing.line import Line

LATEST = 0.05
"""What the latest request that ended counts in the mean residence."""


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
    context_tokens: int


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
    line: Line = field(default_factory=Line, compare=False)
    """those of ours among them, in their order"""
    begun: int = 0
    """requests of both so far"""
    elsewhere: UnderWay = NOTHING_UNDER_WAY
    """of all these, what other gateways have told of"""
    report: Report = field(default_factory=Report)
    others_running: int = 0
    """requests that run there and are not ours, as last reported"""
    others_waiting: int = 0
    """requests that wait there and are not ours, as last reported"""
    reported_context: int = 0
    """`context_tokens` when the report was asked for"""
    residence: float = 0.0
    """mean seconds from a request's first token to its end, 0 while none of ours has ended"""
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
        return Mark(self.in_flight, self.begun, self.context_tokens)

    def ended(self, seconds: float) -> None:
        """A request of ours ended so long after its first token."""
        self.residence += (seconds - self.residence) * (LATEST if self.residence else 1.0)

    def until_it_fits(self, tokens: float, capacity: int) -> float:
        """Seconds until so many tokens fit into a KV cache of `capacity` > 0 beside what running requests hold of it.

        An engine takes a prompt in once all of it fits; cached blocks that nobody runs on are room. A cache that stays
        full is turned over once in the time that a request stays (Little's law). What is held is what was reported,
        which knows what prompts share, what was generated and what is not ours, and what has come and gone since.
        """
        held = self.report.kv_usage * capacity + self.context_tokens - self.reported_context
        over = held + tokens - capacity
        return self.residence * over / capacity if over > 0.0 else 0.0

    def observe(self, report: Report, mark: Mark) -> None:
        """Take in what the engine reports.

        A request of ours may be in the report if it was in flight at any moment since it was asked for. What is more
        than those is somebody else's. So a report that is a second old never counts a request of ours that has ended.
        """
        ours = mark.in_flight + self.begun - mark.begun
        others = max(0, report.running + report.waiting - ours)
        self.report = report
        self.reported_context = mark.context_tokens
        self.others_waiting = min(others, report.waiting)
        self.others_running = others - self.others_waiting
