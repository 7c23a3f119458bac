"""What a run is judged by."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from loadtest.bounds import Lookup, infinite
from loadtest.replica.request import Request
from loadtest.virtual.workload import Answered


class Summary(NamedTuple):
    """Figures of one run."""

    hit_ratio: float
    """share of prompt tokens that engines found in their caches"""
    ideal: float
    """the same with one endless cache for all, in the order of arrival"""
    max_over_mean: float
    """of the prompt tokens that each replica computed"""
    moved: float
    """share of the turns after a thread's first that went to another replica than the turn before"""
    exact: float
    """share of predictions that named the cached tokens"""
    ttft_p50: float
    ttft_p90: float
    ttft_p99: float
    """seconds"""


def summarize(answered: Sequence[Answered], replicas: int, block_size: int) -> Summary:
    """answered: at least one, of any order."""
    arrived = sorted(answered, key=lambda one: one.ask.at)
    tokens = sum(len(one.ask.prompt) for one in arrived)
    computed = Counter(dict.fromkeys(range(replicas), 0))
    last: dict[int, int] = {}
    turns = moved = 0
    for one in arrived:
        computed[one.replica] += len(one.ask.prompt) - one.cached
        if one.ask.thread in last:
            turns += 1
            moved += last[one.ask.thread] != one.replica
        last[one.ask.thread] = one.replica
    predicted = [one for one in arrived if one.predicted_cached is not None]
    exact = sum(one.predicted_cached == one.cached for one in predicted)
    ttfts = sorted(one.ttft for one in arrived)
    return Summary(
        hit_ratio=sum(one.cached for one in arrived) / tokens,
        ideal=infinite([_lookup(one, block_size) for one in arrived], block_size),
        max_over_mean=max(computed.values()) * replicas / sum(computed.values()),
        moved=moved / max(1, turns),
        exact=exact / max(1, len(predicted)),
        ttft_p50=percentile(ttfts, 50),
        ttft_p90=percentile(ttfts, 90),
        ttft_p99=percentile(ttfts, 99),
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """values: sorted, at least one. percent: 0-100."""
    return values[min(len(values) - 1, int(len(values) * percent / 100))]


def _lookup(one: Answered, block_size: int) -> Lookup:
    prompt = len(one.ask.prompt)
    # The last token sampled never goes through the model, so it is not cached.
    hashes = Request("", [*one.ask.prompt, *one.ask.output[:-1]], (0,), block_size).hashes
    return Lookup(prompt, hashes[: (prompt - 1) // block_size], hashes)
