"""A report as a page with plots."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from math import inf
from typing import Any

from loadtest.page import Section, page
from loadtest.plot import Point, Series, lines
from loadtest.replica.timing import PROFILES
from loadtest.report.advice import advice
from loadtest.report.distances import value_of
from loadtest.report.happened import PERCENTS
from loadtest.report.observed import Observed
from loadtest.report.storage import LOAD_BASE, load_per_token

LEAD = (
    "Cache sizes are told by exact or sampled stack distances of what was asked. Policies are forecast by playing the "
    "last requests through the real router on modelled engines; no GPU was run. Intervals are at 95 %, by bootstrap."
)
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


def document(found: Mapping[str, Any], observed: Observed) -> str:
    """HTML. found: as `answers` gives it."""
    return page(
        "kvgate report",
        LEAD,
        [
            Section("In short", words=list(advice(found))),
            _traffic(found, observed),
            _caches(found, observed),
            *_happened(found),
            _policies(found),
            _storage(found),
        ],
    )


def _traffic(found: Mapping[str, Any], observed: Observed) -> Section:
    lengths = _cumulative(((tokens, count) for tokens, count in observed.prompt_lengths.items() if tokens))
    distance = _cumulative(observed.distances_tokens().items())
    times = _cumulative((value_of(step), hits) for step, hits in observed.distances.reuse_seconds.items())
    return Section(
        "Traffic",
        words=[
            f"{found['requests']:,} requests in {found['seconds']:,.0f} s. {found['shared_prefix_share']:.1%} of "
            f"prompt tokens are in prefixes that other requests have, too."
        ],
        plots=[
            lines("Prompt lengths", "tokens", "share of requests", [Series("prompts", lengths)], log_x=True, y_high=1),
            lines(
                "How much else is used until a block is used again",
                "tokens of other blocks",
                "share of reuses",
                [Series("reuse distance", distance)],
                log_x=True,
                y_high=1,
            ),
            lines(
                "How long until a block is used again",
                "seconds",
                "share of reuses",
                [Series("reuse time", times)],
                log_x=True,
                y_high=1,
            ),
        ],
    )


def _caches(found: Mapping[str, Any], observed: Observed) -> Section:
    ideal = observed.curve.hit_ratio(inf)
    largest = found["lru_curve"][-1][0]
    sizes = [largest * 2 ** (-step / 4) for step in range(48, -1, -1)]
    curve = [(size, 1 - observed.curve.hit_ratio(size)) for size in sizes]
    band = [(tokens, 1 - high, 1 - low) for tokens, low, high in found["lru_curve_95"]]
    least = [(sizes[0], 1 - ideal), (sizes[-1], 1 - ideal)]
    rows = [["cache, tokens", "replicas' GPU memory", "hit ratio", "95 %"]]
    l0 = found["fleet"]["l0_tokens"]
    for (tokens, ratio), (_, low, high) in zip(found["lru_curve"], found["lru_curve_95"], strict=True):
        rows.append([f"{tokens:,}", f"{tokens / l0:g}", f"{ratio:.3f}", f"{low:.3f} - {high:.3f}"])
    tiers = [["tier of the whole fleet", "tokens", "hit ratio"]]
    for name, tier in found["tiers"].items():
        tiers.append([name, f"{tier['tokens']:,}", f"{tier['hit_ratio']:.3f}"])
    return Section(
        "What a cache of which size misses",
        words=[
            "One least-recently-used cache for all requests. GPU memory (L0) and host memory (L1) of a fleet reach it "
            "only with a router that uses them as one; shared storage (L2) is one cache."
        ],
        plots=[
            lines(
                "Miss ratio",
                "tokens in the cache",
                "share of prompt tokens missed",
                [Series("LRU", curve, band), Series("endless", least)],
                log_x=True,
                y_high=1,
            )
        ],
        tables=[tiers, rows],
    )


def _happened(found: Mapping[str, Any]) -> Iterator[Section]:
    """What the log says came of the requests, where it does."""
    observed = found.get("observed")
    if not observed:
        return
    compared, outcomes = observed["compared"], observed["compared"]["predictions"]
    rows = [["", "predicted", "observed"]]
    rows.append(["hit ratio", _cell(compared["predicted_hit_ratio"], ".3f"), _cell(compared["hit_ratio"], ".3f")])
    for percent in PERCENTS:
        name = f"ttft_p{percent}_ms"
        rows.append([f"TTFT p{percent} ms", _cell(compared[f"predicted_{name}"]), _cell(observed[name])])
    policies = [["policy", "requests", "hit ratio", *(f"TTFT p{percent} ms" for percent in PERCENTS)]]
    for name, group in observed["policies"].items():
        times = (_cell(group[f"ttft_p{percent}_ms"]) for percent in PERCENTS)
        policies.append([name, f"{group['requests']:,}", _cell(group["hit_ratio"], ".3f"), *times])
    priced = found["fleet"]["gpu_hour_price"] is not None
    tenants = [
        ["tenant", "requests", "cached tokens", "hit ratio", "prefill saved, s", "GPU hours saved"] + ["money"] * priced
    ]
    for name, group in observed["tenants"].items():
        tenants.append(
            [
                name or "(no keys)",
                f"{group['requests']:,}",
                f"{group['cached_tokens']:,}",
                _cell(group["hit_ratio"], ".3f"),
                f"{group['saved_ms'] / 1e3:,.1f}",
                f"{group['saved_gpu_hours']:,.3f}",
                *([f"{group['saved']:,.2f}"] if priced else []),
            ]
        )
    yield Section(
        "What was observed",
        words=[
            f"As the gateway logged it: {outcomes['exact']:,} predictions of cached tokens were exact, "
            f"{outcomes['over']:,} over and {outcomes['under']:,} under. What is saved is the engine time that the "
            f"prefill of the cached tokens would have taken by the profile {found['fleet']['profile']}."
        ],
        tables=[rows, policies, tenants],
    )


def _cell(value: float | None, form: str = ",.0f") -> str:
    return "–" if value is None else format(value, form)


def _policies(found: Mapping[str, Any]) -> Section:
    return Section(
        "Policies and replicas",
        words=["GPU hours saved are against computing every prompt in full."],
        tables=[_table("policy", found["policies"]), _table("replicas (kv-aware)", found["replicas"])],
    )


def _storage(found: Mapping[str, Any]) -> Section:
    speed = found["fleet"]["l2_gigabytes_per_second"]
    rows = [["profile", "pays from, tokens"]]
    rows += [[name, "never" if even is None else f"{even:,}"] for name, even in found["l2_break_even_tokens"].items()]
    profile = PROFILES[found["fleet"]["profile"]]
    per_token = load_per_token(profile, speed)
    computed = [(float(tokens), profile.prefill_ms(tokens, 0)) for tokens in LENGTHS]
    loaded = [(float(tokens), 1000 * (LOAD_BASE + per_token * tokens)) for tokens in LENGTHS]
    return Section(
        "Shared storage",
        words=[f"Read at {speed:g} GB/s by each replica."],
        plots=[
            lines(
                f"A prefix computed or loaded ({profile.name})",
                "tokens",
                "ms",
                [Series("computed", computed), Series("loaded", loaded)],
                log_x=True,
            )
        ],
        tables=[rows, _table("shared storage (kv-aware)", found["l2"])],
    )


def _table(name: str, rows: Mapping[str, Any]) -> list[list[str]]:
    priced = any("saved_per_day" in figures for figures in rows.values())
    head = [name, "hit ratio", "95 %", "loaded", "TTFT p50 ms", "p90", "p99", "GPU hours saved a day"]
    table = [head + ["money a day"] * priced]
    for key, figures in rows.items():
        low, high = figures["hit_ratio_95"]
        cells = [
            key,
            f"{figures['hit_ratio']:.3f}",
            f"{low:.3f} - {high:.3f}",
            f"{figures['loaded_ratio']:.3f}",
            *(f"{figures[f'ttft_p{percent}_ms']:,.0f}" for percent in (50, 90, 99)),
            f"{figures['saved_gpu_hours_per_day']:,.1f}",
        ]
        table.append([*cells, f"{figures['saved_per_day']:,.2f}"] if priced else cells)
    return table


def _cumulative(weights: Iterable[tuple[float, float]]) -> list[Point]:
    """(value, weight) in any order -> (value, share of the weight up to it), thinned to what a plot can show."""
    ordered = sorted(weights)
    total = sum(weight for _, weight in ordered)
    if not total:
        return []
    sums = accumulate(weight for _, weight in ordered)
    points = [(value, reached / total) for (value, _), reached in zip(ordered, sums, strict=True)]
    return points[:: max(1, len(points) // 400)] + points[-1:]
