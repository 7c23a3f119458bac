"""All that a report says, as one object for JSON, terminal and page."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from loadtest.replica.timing import PROFILES
from loadtest.report.distances import value_of
from loadtest.report.observed import Observed
from loadtest.report.storage import break_even
from loadtest.report.worth import GPUS, Figures, Plan, forecast

FLEETS = tuple(2**power for power in range(15))
"""times one replica's GPU memory: sizes of cache that are told"""
LEAST_REQUESTS = 30
"""fewer than these forecast nothing"""
POLICIES = ("round-robin", "least-loaded", "prefix-aware", "kv-aware")

Json = dict[str, Any]


def answers(observed: Observed, plan: Plan, did: Callable[[str], None]) -> Json:
    """did: told what is done next. Raises ValueError for too little traffic."""
    if len(observed.recent) < LEAST_REQUESTS:
        raise ValueError(f"{observed.requests} requests are too few to say anything")
    found: Json = {
        "requests": observed.requests,
        "seconds": round(observed.seconds, 3),
        "block_tokens": observed.block_size,
        "sampling_rate": round(observed.distances.rate, 4),
        "prompt_tokens": {f"p{percent}": observed.prompt_percentile(percent) for percent in (50, 90, 99)},
        "shared_prefix_share": round(observed.shared_prefix_share, 4),
        **_curve(observed, plan),
        "tiers": _tiers(observed, plan),
        "reuse_distance_tokens": _percentiles(observed.distances_tokens()),
        "reuse_seconds": _percentiles({value_of(at): hits for at, hits in observed.distances.reuse_seconds.items()}),
        "l2_break_even_tokens": {
            name: break_even(profile, plan.gigabytes_per_second) for name, profile in PROFILES.items()
        },
    }
    happened = observed.happened.told(plan.gpu_hour_price)
    if happened:
        found["observed"] = happened
    found["policies"] = {name: _forecast(observed, plan, did, name, plan.replicas) for name in POLICIES}
    best = "kv-aware"
    counts = [count for count in (plan.replicas - 1, plan.replicas, plan.replicas + 1) if count]
    found["replicas"] = {
        str(count): found["policies"][best] if count == plan.replicas else _forecast(observed, plan, did, best, count)
        for count in counts
    }
    found["l2"] = {
        "off": found["policies"][best],
        "on": _forecast(observed, plan, did, best, plan.replicas, shared=True),
    }
    found["fleet"] = {
        "replicas": plan.replicas,
        "profile": plan.profile.name,
        "gpus_per_replica": GPUS[plan.profile.name],
        "l0_tokens": plan.profile.l0_tokens,
        "l2_gigabytes_per_second": plan.gigabytes_per_second,
        "gpu_hour_price": plan.gpu_hour_price,
    }
    return found


def _curve(observed: Observed, plan: Plan) -> Json:
    curve = observed.curve
    ideal = curve.hit_ratio(inf)
    points: list[tuple[int, float]] = []
    for fleet in FLEETS:
        tokens = fleet * plan.profile.l0_tokens
        points.append((tokens, curve.hit_ratio(tokens)))
        if points[-1][1] >= ideal:
            break
    return {
        "ideal_hit_ratio": round(ideal, 4),
        "ideal_hit_ratio_95": [round(end, 4) for end in curve.interval(inf)],
        "lru_curve": [[tokens, round(ratio, 4)] for tokens, ratio in points],
        "lru_curve_95": [[tokens, *(round(end, 4) for end in curve.interval(tokens))] for tokens, _ in points],
    }


def _tiers(observed: Observed, plan: Plan) -> Json:
    """What the memory of the whole fleet serves at best, tier by tier, each with the faster ones."""
    l0 = plan.replicas * plan.profile.l0_tokens
    l1 = l0 + plan.replicas * plan.l1_tokens
    sizes = {"L0": l0, "L0+L1": l1, "L0+L1+L2": l1 + plan.l2_tokens}
    return {
        name: {"tokens": tokens, "hit_ratio": round(observed.curve.hit_ratio(tokens), 4)}
        for name, tokens in sizes.items()
    }


def _forecast(
    observed: Observed, plan: Plan, did: Callable[[str], None], policy: str, replicas: int, *, shared: bool = False
) -> Json:
    did(f"{policy}, {replicas} replicas" + (", shared storage" if shared else ""))
    return _told(forecast(observed, plan, policy, replicas, shared=shared), plan)


def _told(figures: Figures, plan: Plan) -> Json:
    told: Json = {
        "hit_ratio": round(figures.hit_ratio, 4),
        "hit_ratio_95": [round(end, 4) for end in figures.intervals["hit_ratio"]],
        "loaded_ratio": round(figures.loaded_ratio, 4),
        **{f"ttft_p{percent}_ms": round(1000 * wait, 1) for percent, wait in figures.ttft.items()},
        "ttft_p50_ms_95": [round(1000 * end, 1) for end in figures.intervals["ttft_p50"]],
        "prefill_gpu_hours_per_day": round(figures.gpu_hours_per_day, 3),
        "saved_gpu_hours_per_day": round(figures.gpu_hours_saved_per_day, 3),
    }
    if plan.gpu_hour_price is not None:
        told["saved_per_day"] = round(figures.gpu_hours_saved_per_day * plan.gpu_hour_price, 2)
    return told


def _percentiles(weights: Mapping[float, float]) -> dict[str, float | None]:
    """weights: by value."""
    total = sum(weights.values())
    found: dict[str, float | None] = {}
    for percent in (50, 90, 99):
        left = total * percent / 100
        found[f"p{percent}"] = None
        for value in sorted(weights):
            left -= weights[value]
            if left <= 0:
                found[f"p{percent}"] = round(value)
                break
    return found
