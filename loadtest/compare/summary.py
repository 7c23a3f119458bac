"""Outcomes -> the object that `kvgate compare --json` prints."""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite

from loadtest.compare.bootstrap import Figure, Interval, Resampled
from loadtest.compare.outcome import Outcome, good, hit_ratio, max_over_mean, ttft
from loadtest.compare.plan import Bounds

Json = dict[str, object]

_FIGURES: Mapping[str, tuple[Figure, float, int]] = {
    "hit_ratio": (hit_ratio, 1, 4),
    "ttft_p50_ms": (partial(ttft, percent=50), 1000, 1),
    "ttft_p90_ms": (partial(ttft, percent=90), 1000, 1),
    "ttft_p99_ms": (partial(ttft, percent=99), 1000, 1),
    "good_ratio": (good, 1, 4),
}
"""figure, factor to the unit in its name, digits"""


def summary(outcomes: Sequence[Outcome], bounds: Mapping[tuple[float, int], Bounds]) -> Json:
    """Every load's table; of one load, the table itself.

    outcomes: of every router, load and seed. bounds: by load and seed.
    """
    loads = sorted({outcome.load for outcome in outcomes})
    cells = [_cell(load, outcomes, bounds) for load in loads]
    return cells[0] if len(cells) == 1 else {"loads": cells}


def _cell(load: float, outcomes: Sequence[Outcome], bounds: Mapping[tuple[float, int], Bounds]) -> Json:
    by_router: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.load == load:
            by_router.setdefault(outcome.router, []).append(outcome)
    resampled = Resampled(by_router)
    here = [bound for (at, _), bound in bounds.items() if at == load]
    return {
        "load": load,
        "policies": {name: _policy(name, runs, resampled) for name, runs in by_router.items()},
        "pooled_lru_hit_ratio": round(statistics.mean(bound.lru for bound in here), 4),
        "pooled_belady_hit_ratio": round(statistics.mean(bound.belady for bound in here), 4),
        "ideal_hit_ratio": round(statistics.mean(bound.ideal for bound in here), 4),
    }


def _policy(name: str, runs: Sequence[Outcome], resampled: Resampled) -> Json:
    shown: Json = {}
    intervals: Json = {}
    for key, (figure, factor, digits) in _FIGURES.items():
        interval = resampled.interval(name, figure)
        shown[key] = _number(interval.value * factor, digits)
        intervals[key] = _ends(interval, factor, digits)
    shown["max_over_mean"] = round(statistics.mean(map(max_over_mean, runs)), 3)
    shown["requests"] = sum(len(run.asked) for run in runs)
    shown["unanswered"] = sum(one.ttft is None for run in runs for one in run.asked)
    shown["intervals_95"] = intervals
    return shown


def _ends(interval: Interval, factor: float, digits: int) -> list[float | None]:
    return [_number(interval.low * factor, digits), _number(interval.high * factor, digits)]


def _number(value: float, digits: int) -> float | None:
    """JSON has no infinity: a request that is never answered waits for `null`."""
    return round(value, digits) if isfinite(value) else None
