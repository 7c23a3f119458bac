"""A comparison as a page with plots."""

from collections.abc import Mapping, Sequence
from typing import Any

from loadtest.compare.outcome import Outcome
from loadtest.page import Section, page
from loadtest.plot import Point, Series, lines

LEAD = (
    "Simulated replicas, no GPU: caches are exact, prefill and decode take as long as on the GPU that is named. "
    "Intervals are at 95 %, by bootstrap over stretches of requests, the same for every router. Load 1 keeps every "
    "engine busy if nothing is ever reused."
)
CELLS = {
    "hit_ratio": "hit ratio",
    "ttft_p50_ms": "TTFT p50 ms",
    "ttft_p90_ms": "TTFT p90 ms",
    "ttft_p99_ms": "TTFT p99 ms",
    "good_ratio": "good",
}


def document(result: Mapping[str, Any], outcomes: Sequence[Outcome], title: str) -> str:
    """HTML. result: as `summary` gives it."""
    cells = result.get("loads", [result])
    sections = [Section("Hit ratio and load", plots=[_by_load(cells), _ttft_by_load(cells)])] if len(cells) > 1 else []
    for cell in cells:
        here = [outcome for outcome in outcomes if outcome.load == cell["load"]]
        sections.append(_load(cell, here))
    return page(f"kvgate compare: {title}", LEAD, sections)


def _load(cell: Mapping[str, Any], outcomes: Sequence[Outcome]) -> Section:
    routers = list(dict.fromkeys(outcome.router for outcome in outcomes))
    rows = [["router", *CELLS.values(), "max/mean", "requests", "unanswered"]]
    for name in routers:
        figures = cell["policies"][name]
        shown = [_interval(figures, key) for key in CELLS]
        rows.append([name, *shown, *(str(figures[key]) for key in ("max_over_mean", "requests", "unanswered"))])
    first = min((outcome.seed for outcome in outcomes), default=0)
    return Section(
        f"Load {cell['load']:g}",
        words=[
            f"One endless cache would hit {cell['ideal_hit_ratio']:.3f}, one of the fleet's size "
            f"{cell['pooled_lru_hit_ratio']:.3f} (least recently used first) to {cell['pooled_belady_hit_ratio']:.3f} "
            f"(knowing the future). Good is a first token within 2 s and 50 ms between tokens."
        ],
        plots=[
            lines(
                "Time to first token",
                "seconds",
                "share of requests",
                [Series(name, _waits(outcomes, name)) for name in routers],
                log_x=True,
                y_high=1,
            ),
            lines(
                "Spread of computed tokens over replicas",
                "share of the time",
                "largest over mean",
                [
                    Series(name, _spread(one))
                    for name in routers
                    for one in outcomes
                    if (one.router, one.seed) == (name, first)
                ],
            ),
        ],
        tables=[rows],
    )


def _by_load(cells: Sequence[Mapping[str, Any]]) -> str:
    routers = list(cells[0]["policies"])
    series = [_line(cells, name, "hit_ratio", 1.0) for name in routers]
    for key, name in (("ideal_hit_ratio", "endless cache"), ("pooled_lru_hit_ratio", "pooled LRU")):
        series.append(Series(name, [(cell["load"], cell[key]) for cell in cells]))
    return lines("Hit ratio", "load", "share of prompt tokens", series)


def _ttft_by_load(cells: Sequence[Mapping[str, Any]]) -> str:
    series = [_line(cells, name, "ttft_p90_ms", 0.001) for name in cells[0]["policies"]]
    return lines("Time to first token, 90th percentile", "load", "seconds", series)


def _line(cells: Sequence[Mapping[str, Any]], name: str, key: str, factor: float) -> Series:
    there = [(cell["load"], cell["policies"][name]) for cell in cells if name in cell["policies"]]
    known = [(load, figures) for load, figures in there if figures[key] is not None]
    sure = [(load, figures["intervals_95"][key]) for load, figures in known]
    return Series(
        name,
        [(load, factor * figures[key]) for load, figures in known],
        [(load, factor * low, factor * high) for load, (low, high) in sure if low is not None and high is not None],
    )


def _waits(outcomes: Sequence[Outcome], router: str) -> list[Point]:
    """How many have their first token after so many seconds; who never has one keeps the line below 1."""
    asked = [one for outcome in outcomes if outcome.router == router for one in outcome.asked]
    waits = sorted(one.ttft for one in asked if one.ttft is not None)
    points = [(wait, rank / len(asked)) for rank, wait in enumerate(waits, 1)]
    return points[:: max(1, len(points) // 300)] + points[-1:]


def _spread(outcome: Outcome) -> list[Point]:
    """The largest replica's part over the mean, of all that was computed until then."""
    totals = [0] * len(outcome.computed[0]) if outcome.computed else []
    points = []
    for number, part in enumerate(outcome.computed, 1):
        totals = [total + now for total, now in zip(totals, part, strict=True)]
        if sum(totals):
            points.append((number / len(outcome.computed), max(totals) * len(totals) / sum(totals)))
    return points


def _interval(figures: Mapping[str, Any], key: str) -> str:
    low, high = figures["intervals_95"][key]
    return f"{_number(figures[key])} ({_number(low)} - {_number(high)})"


def _number(value: float | None) -> str:
    if value is None:
        return "never"
    return f"{value:.3f}" if value <= 1 else f"{value:,.0f}"
