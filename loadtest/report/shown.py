"""A report in the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from loadtest.report.advice import advice


def shown(found: Mapping[str, Any], console: Console) -> None:
    """found: as `answers` gives it."""
    prompts, fleet = found["prompt_tokens"], found["fleet"]
    console.print(
        f"{found['requests']:,} requests in {found['seconds'] / 3600:.1f} hours; prompts of {prompts['p50']:,} tokens "
        f"(p90 {prompts['p90']:,}, p99 {prompts['p99']:,})"
    )
    curve = Table("cache, tokens", title="One least-recently-used cache for all")
    curve.add_column("hit ratio", justify="right")
    curve.add_column("95 %", justify="right")
    for (tokens, ratio), (_, low, high) in zip(found["lru_curve"], found["lru_curve_95"], strict=True):
        curve.add_row(f"{tokens:,}", f"{ratio:.3f}", f"{low:.3f}-{high:.3f}")
    console.print(curve)
    policies = Table("policy", title=f"Forecast for {fleet['replicas']} replicas ({fleet['profile']}), no GPU was run")
    for column in ("hit ratio", "TTFT p50 ms", "TTFT p90 ms", "GPU hours saved a day"):
        policies.add_column(column, justify="right")
    for name, figures in found["policies"].items():
        policies.add_row(
            name,
            f"{figures['hit_ratio']:.3f}",
            f"{figures['ttft_p50_ms']:.0f}",
            f"{figures['ttft_p90_ms']:.0f}",
            f"{figures['saved_gpu_hours_per_day']:.1f}",
        )
    console.print(policies)
    for sentence in advice(found):
        console.print(f"- {sentence}", highlight=False)
