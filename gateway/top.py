"""`kvgate top`: the fleet and its traffic in a terminal, from a gateway's `/live`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

_SHADES = "·▁▂▃▄▅▆▇█"
_SLOWEST = 8
_LEAST = 3
"""rows of each table, however low the terminal is"""


def top(url: str, console: Console) -> int:
    """Show until interrupted. Returns 1 where the gateway does not answer."""
    try:
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            for snapshot in _snapshots(url):
                live.update(view(snapshot, console.width, console.height), refresh=True)
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


def view(snapshot: Mapping[str, Any], width: int, height: int) -> RenderableType:
    """One document of `/live` as it is shown in so many columns and rows.

    Rates; every engine's GPU memory as one mark; engines that need a look, then the busiest; the slowest decisions.
    """
    engines = sorted(snapshot["engines"], key=_urgency)
    rates, heat = _rates(snapshot), _heat_map(snapshot["engines"])
    fixed = 4 + _lines(rates, width) + _lines(heat, width)  # with two headings and the names of two tables' columns
    rows = max(2 * _LEAST, height - fixed)
    slowest = min(_SLOWEST, max(_LEAST, rows // 3), len(snapshot["decisions"]))
    shown = engines[: max(_LEAST, rows - slowest)]
    heading = (
        "fleet" if len(shown) == len(engines) else f"fleet: {len(shown)} of {len(engines)} engines, most urgent first"
    )
    return Group(
        rates, heat, Text(heading, "bold"), _fleet(shown),
        Text("slowest of the last decisions", "bold"), _slowest(snapshot["decisions"], slowest),
    )  # fmt: skip


def _lines(text: Text, width: int) -> int:
    return sum(-(-max(1, len(line)) // width) for line in text.plain.split("\n"))


def _urgency(engine: Mapping[str, Any]) -> tuple[bool, bool, int]:
    """Least for those that are to be seen first: unwell, late, busy."""
    events = engine["events"]
    well = engine["health"] in ("ready", "fresh")
    return well, events is not None and not events["late"], -engine["in_flight"] - engine["waiting"]


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


def _heat_map(engines: Sequence[Mapping[str, Any]]) -> Text:
    """A mark for each engine: how full its GPU memory is; red where its events are late or missing."""
    text = Text("L0 of every engine\n", overflow="fold")
    for engine in engines:
        share, events = _share(engine["blocks"]["GPU"], engine["capacity_blocks"]), engine["events"]
        mark = "?" if share is None else _SHADES[round(share * (len(_SHADES) - 1))]
        text.append(mark, "red" if events is None or events["late"] else "green")
    return text


def _fleet(engines: Sequence[Mapping[str, Any]]) -> Table:
    table = _table(("replica", "health", "sent", "run", "wait", "prefill", "L0", "L1", "events"), 2, 6)
    for engine in engines:
        rank = f" #{engine['engine']}" if engine["engine"] else ""
        events, health = engine["events"], engine["health"]
        table.add_row(
            engine["replica"] + rank,
            Text(health, "" if health in ("ready", "fresh") else "red"),
            *(f"{engine[name]:,}" for name in ("in_flight", "running", "waiting", "pending_tokens")),
            _held(engine["blocks"]["GPU"], engine["capacity_blocks"]),
            f"{engine['blocks']['CPU']:,}",
            Text("none", "red")
            if events is None
            else Text("late", "red")
            if events["late"]
            else Text("whole", "green"),
        )
    return table


def _table(names: Sequence[str], first: int, last: int) -> Table:
    """Without lines; every row is one line. first, last: the columns of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if first <= place < last else "left", no_wrap=True, overflow="ellipsis")
    return table


def _held(blocks: int, capacity: int | None) -> Text:
    share = _share(blocks, capacity)
    if share is None:
        return Text(f"{blocks:,}")
    mark = _SHADES[round(share * (len(_SHADES) - 1))]
    return Text(f"{mark} {share:4.0%}", "green" if share < 0.7 else "yellow" if share < 0.95 else "red")


def _share(blocks: int, capacity: int | None) -> float | None:
    return min(1.0, blocks / capacity) if capacity else None


def _slowest(decisions: Sequence[Mapping[str, Any]], rows: int) -> Table:
    names = ("request", "replica", "TTFT", "pred.", "prompt", "cached", "pred.", "reason")
    table = _table(names, 2, 7)
    answered = [decision for decision in decisions if decision["outcome"]["ttft_ms"] is not None]
    for decision in sorted(answered, key=lambda decision: -decision["outcome"]["ttft_ms"])[:rows]:
        predicted, outcome = decision["predicted"], decision["outcome"]
        table.add_row(
            decision["id"][:8],
            decision["replica"],
            _ms(outcome["ttft_ms"]),
            _ms(predicted["ttft_ms"]),
            *(
                _count(value)
                for value in (decision["prompt_tokens"], outcome["cached_tokens"], predicted["cached_tokens"])
            ),
            decision["reason"],
        )
    return table


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} ms"
