"""The result for people, in a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Column, Table

CAPTION = "Simulated replicas, no GPU. In brackets: 95 % intervals, bootstrap."
COLUMNS = {
    "hit_ratio": "hit ratio",
    "ttft_p50_ms": "TTFT p50 ms",
    "ttft_p90_ms": "TTFT p90 ms",
    "good_ratio": "good",
    "max_over_mean": "max/mean",
}

DOUBTED = ("hit_ratio", "ttft_p90_ms")
"""shown with their intervals; JSON has all"""


def tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """One for each load."""
    for cell in result.get("loads", [result]):
        title = (
            f"load {cell['load']:g}; possible hit ratio {cell['ideal_hit_ratio']:.3f}, "
            f"{cell['pooled_lru_hit_ratio']:.3f} (LRU) to {cell['pooled_belady_hit_ratio']:.3f} with the fleet's memory"
        )
        shown = Table(Column("router", min_width=12), title=title, caption=CAPTION)
        for column in COLUMNS.values():
            shown.add_column(column, justify="right")
        for name, figures in cell["policies"].items():
            shown.add_row(name, *(_shown(figures, key) for key in COLUMNS))
        yield shown


def _shown(figures: Mapping[str, Any], key: str) -> str:
    value = _number(figures[key])
    ends = figures["intervals_95"].get(key)
    return f"{value} ({_number(ends[0])}-{_number(ends[1])})" if ends and key in DOUBTED else value


def _number(value: float | None) -> str:
    if value is None:
        return "never"
    return f"{value:.3f}" if value < 10 else f"{value:.0f}"
