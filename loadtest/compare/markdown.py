"""The result as Markdown tables."""

from collections.abc import Mapping
from typing import Any

COLUMNS = {
    "hit_ratio": "hit ratio",
    "ttft_p50_ms": "TTFT p50 ms",
    "ttft_p90_ms": "TTFT p90 ms",
    "ttft_p99_ms": "TTFT p99 ms",
    "good_ratio": "good",
}


def markdown(result: Mapping[str, Any]) -> str:
    """One table for each load, intervals in brackets. result: as `summary` gives it."""
    lines: list[str] = []
    for cell in result.get("loads", [result]):
        lines += [
            f"Load {cell['load']:g}; one endless cache {cell['ideal_hit_ratio']:.3f}, pooled LRU "
            f"{cell['pooled_lru_hit_ratio']:.3f}, pooled Belady {cell['pooled_belady_hit_ratio']:.3f}:",
            "",
            "| " + " | ".join(("router", *COLUMNS.values(), "max/mean", "requests", "unanswered")) + " |",
            "|---" * (len(COLUMNS) + 4) + "|",
        ]
        for name, figures in cell["policies"].items():
            cells = [name, *(_shown(figures, key) for key in COLUMNS)]
            cells += [str(figures[key]) for key in ("max_over_mean", "requests", "unanswered")]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _shown(figures: Mapping[str, Any], key: str) -> str:
    low, high = figures["intervals_95"][key]
    return f"{_number(figures[key])} ({_number(low)}-{_number(high)})"


def _number(value: float | None) -> str:
    if value is None:
        return "never"
    return f"{value:.3f}" if value <= 1 else f"{value:.0f}"
