"""What a run achieved, and how it is shown."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from loadtest.play import Exchange


@dataclass(frozen=True, slots=True)
class Result:
    """What one policy achieved."""

    policy: str
    hit_ratio: float
    """cached tokens over prompt tokens, by the replicas' own counters"""
    exchanges: Sequence[Exchange]
    lag: float
    """seconds that this machine was late, p90"""

    @property
    def prompt_tokens(self) -> int:
        return sum(exchange.prompt_tokens for exchange in self.exchanges)

    @property
    def cached_tokens(self) -> int:
        return sum(exchange.cached_tokens for exchange in self.exchanges)

    def ttft_ms(self, percent: int) -> float:
        """Percentile, 1-99, of the time to first token."""
        cuts = statistics.quantiles([exchange.ttft for exchange in self.exchanges], n=100, method="inclusive")
        return 1000 * cuts[percent - 1]


def table(results: Sequence[Result]) -> Table:
    shown = Table("policy", title="The same conversations, three policies")
    for column in ("hit ratio", "TTFT p50", "TTFT p90", "prompt tokens not prefilled"):
        shown.add_column(column, justify="right")
    for result in results:
        share = result.cached_tokens / result.prompt_tokens
        shown.add_row(
            result.policy,
            f"{result.hit_ratio:.3f}",
            f"{result.ttft_ms(50):.0f} ms",
            f"{result.ttft_ms(90):.0f} ms",
            f"{result.cached_tokens:,} of {result.prompt_tokens:,} ({share:.1%})",
        )
    return shown
