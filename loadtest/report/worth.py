"""What traffic would get from a fleet: by policy, a replica more or less, shared storage or not; in GPU hours."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from loadtest.replica.timing import Profile
from loadtest.report.forecast import Forecast, Met
from loadtest.report.observed import Observed
from loadtest.report.storage import Storage, load_per_token

GPUS = {"qwen3-32b-h100": 2, "llama-8b-l40s": 1, "llama-8b-h100": 1}
"""of one replica, by profile"""
STRETCH = 20
DRAWS = 300
HOURS_PER_DAY = 24


@dataclass(frozen=True, slots=True)
class Plan:
    """The fleet to forecast."""

    replicas: int
    profile: Profile
    gigabytes_per_second: float
    """at which a replica reads shared storage"""
    l1_tokens: int
    """that each replica's host memory holds"""
    l2_tokens: int
    """that shared storage holds"""
    gpu_hour_price: float | None
    """money"""


@dataclass(frozen=True, slots=True)
class Figures:
    """One forecast, with 95 % intervals."""

    hit_ratio: float
    """share of prompt tokens in the replica's own memory"""
    loaded_ratio: float
    """share of prompt tokens loaded from shared storage"""
    ttft: dict[int, float]
    """seconds, by percentile"""
    intervals: dict[str, tuple[float, float]]
    gpu_hours_per_day: float
    """that prefills take"""
    gpu_hours_saved_per_day: float
    """against computing every prompt in full"""


def forecast(observed: Observed, plan: Plan, policy: str, replicas: int, *, shared: bool = False) -> Figures:
    """The last requests under one policy; a third of them fills the caches. At least 30 requests."""
    # A log is in the order in which requests ended.
    requests = sorted(observed.recent, key=lambda request: request.arrival)
    storage = None
    if shared:
        per_token = load_per_token(plan.profile, plan.gigabytes_per_second)
        storage = Storage(plan.l2_tokens // observed.block_size, per_token)
    warm_up = len(requests) // 3
    met = Forecast(policy, replicas, plan.profile, observed.block_size, storage).play(requests, warm_up)
    span = requests[-1].arrival - requests[warm_up].arrival
    per_day = GPUS[plan.profile.name] * HOURS_PER_DAY / span if span else 0.0
    busy = sum(one.busy for one in met)
    full = sum(plan.profile.prefill_ms(one.prompt, 0) for one in met) / 1000
    return Figures(
        _hit_ratio(met),
        sum(one.loaded for one in met) / max(1, sum(one.prompt for one in met)),
        {percent: _ttft(met, percent) for percent in (50, 90, 99)},
        {"hit_ratio": _interval(met, _hit_ratio), "ttft_p50": _interval(met, lambda drawn: _ttft(drawn, 50))},
        busy * per_day,
        (full - busy) * per_day,
    )


def _hit_ratio(met: Sequence[Met]) -> float:
    return sum(one.cached for one in met) / max(1, sum(one.prompt for one in met))


def _ttft(met: Sequence[Met], percent: int) -> float:
    waits = sorted(one.ttft for one in met)
    return waits[min(len(waits) - 1, len(waits) * percent // 100)]


def _interval(met: Sequence[Met], figure: Callable[[Sequence[Met]], float]) -> tuple[float, float]:
    """Where 95 % of the figure lie when stretches of requests are drawn again."""
    random = Random(0)
    stretches = [met[at : at + STRETCH] for at in range(0, len(met), STRETCH)]
    drawn = sorted(
        figure([one for stretch in random.choices(stretches, k=len(stretches)) for one in stretch])
        for _ in range(DRAWS)
    )
    cut = int(0.025 * DRAWS)
    return drawn[cut], drawn[-1 - cut]
