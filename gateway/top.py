"""`kvgate top`: the fleet and its traffic in a terminal, from a gateway's `/live`."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

_SHADES = " ▁▂▃▄▅▆▇█"
_SLOWEST = 8


def top(url: str, console: Console) -> int:
    """Show until interrupted. Returns 1 where the gateway does not answer."""
    try:
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            for snapshot in _snapshots(url):
                live.update(view(snapshot), refresh=True)
    except KeyboardInterrupt:
        return 0
    except httpx.HTTPError as exc:
        console.print(f"{url} does not answer: {exc}")
        return 1
    return 0


def _snapshots(url: str) -> Iterator[Mapping[str, Any]]:
    while True:
        with httpx.stream("GET", f"{url}/live", timeout=10) as stream:
            stream.raise_for_status()
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))


def view(snapshot: Mapping[str, Any]) -> RenderableType:
    """One document of `/live` as it is shown: rates, engines by tier, the slowest of the last decisions."""
    return Group(_rates(snapshot), _fleet(snapshot["engines"]), _slowest(snapshot["decisions"]))


def _rates(snapshot: Mapping[str, Any]) -> Text:
    minute = snapshot["minute"]
    ratio = minute["hit_ratio"]
    hits = "–" if ratio is None else f"{ratio:.1%}"
    text = Text(f"policy {snapshot['policy']}   {minute['requests'] / 60:.1f} requests/s   hit ratio {hits}   ")
    text.append(f"TTFT p50 {_ms(minute['ttft_p50_ms'])}  p90 {_ms(minute['ttft_p90_ms'])}   ")
    text.append(f"prefill saved {minute['saved_ms'] / 1e3:.1f} s   (last minute)")
    for fault in snapshot["degraded"]:
        text.append(f"\n{fault}", "red")
    return text


def _fleet(engines: list[Mapping[str, Any]]) -> Table:
    table = Table(title="fleet", title_justify="left", expand=True)
    table.add_column("replica")
    for name in ("in flight", "running", "waiting", "to prefill"):
        table.add_column(name, justify="right")
    for name in ("L0", "L1", "events"):
        table.add_column(name)
    most = max((engine["blocks"]["CPU"] for engine in engines), default=0)
    for engine in engines:
        rank = f" #{engine['engine']}" if engine["engine"] else ""
        events = engine["events"]
        table.add_row(
            engine["replica"] + rank,
            *(f"{engine[name]:,}" for name in ("in_flight", "running", "waiting", "pending_tokens")),
            _heat(engine["blocks"]["GPU"], engine["capacity_blocks"]),
            _heat(engine["blocks"]["CPU"], most),
            Text("none", "red")
            if events is None
            else Text("late", "red")
            if events["late"]
            else Text("whole", "green"),
        )
    return table


def _heat(blocks: int, capacity: int | None) -> Text:
    if not capacity:
        return Text(f"{blocks:,}")
    share = min(1.0, blocks / capacity)
    shade = _SHADES[round(share * (len(_SHADES) - 1))]
    return Text(f"{shade * 6} {share:4.0%} {blocks:,}", "green" if share < 0.7 else "yellow" if share < 0.95 else "red")


def _slowest(decisions: list[Mapping[str, Any]]) -> Table:
    table = Table(title="slowest of the last decisions", title_justify="left", expand=True)
    for name in ("request", "replica", "prompt", "cached: predicted, engine", "TTFT: predicted, real", "reason"):
        table.add_column(name)
    answered = [decision for decision in decisions if decision["outcome"]["ttft_ms"] is not None]
    for decision in sorted(answered, key=lambda decision: -decision["outcome"]["ttft_ms"])[:_SLOWEST]:
        predicted, outcome = decision["predicted"], decision["outcome"]
        table.add_row(
            decision["id"][:12],
            decision["replica"],
            str(decision["prompt_tokens"]),
            f"{predicted['cached_tokens']}, {outcome['cached_tokens']}",
            f"{_ms(predicted['ttft_ms'])}, {_ms(outcome['ttft_ms'])}",
            decision["reason"],
        )
    return table


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} ms"
