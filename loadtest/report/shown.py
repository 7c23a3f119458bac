"""A report in the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from loadtest.report.advice import advice

_TENANTS = 12
"""that are shown"""


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
    if "observed" in found:
        _print_tenants(found["observed"]["tenants"], console)
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


def _print_tenants(tenants: Mapping[str, Any], console: Console) -> None:
    table = Table("tenant", title="What caches saved, as logged")
    columns = ["requests", "cached tokens", "hit ratio", "prefill saved, s"]
    priced = any("saved" in saved for saved in tenants.values())
    for column in columns + ["money"] * priced:
        table.add_column(column, justify="right")
    for name, saved in list(tenants.items())[:_TENANTS]:
        table.add_row(
            name or "(no keys)",
            f"{saved['requests']:,}",
            f"{saved['cached_tokens']:,}",
            "–" if saved["hit_ratio"] is None else f"{saved['hit_ratio']:.3f}",
            f"{saved['saved_ms'] / 1e3:,.1f}",
            *([f"{saved['saved']:,.2f}"] if priced else []),
        )
    console.print(table)
