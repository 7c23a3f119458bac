"""How busy an engine is: what we have in flight there, exactly, and what it last reported of everybody's."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Report(NamedTuple):
    """An engine's own figures, as last scraped from its `/metrics`."""

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    """share of the KV cache that running requests hold, 0 to 1; what is merely cached does not count"""


@dataclass(slots=True)
class EngineLoad:
    """Changed by leases and reports; read by policies and the cost model."""

    in_flight: int = 0
    """requests of ours that have not ended"""
    pending: int = 0
    """those of them without a first token yet"""
    pending_tokens: int = 0
    """prompt tokens that those have to prefill"""
    context_tokens: int = 0
    """prompt tokens of the ones that are past their first token"""
    report: Report = field(default_factory=Report)

    @property
    def others_waiting(self) -> int:
        """Requests that wait there and are not ours."""
        return max(0, self.report.waiting - self.pending)

    @property
    def running(self) -> int:
        """Requests that are decoding there, by the best knowledge of both sides."""
        return max(self.in_flight - self.pending, self.report.running - self.pending, 0)
