"""A report's figures in sentences: what pays and what does not, by the rules that operators go by."""

from collections.abc import Iterator, Mapping
from typing import Any

WORTH_SHARING = 0.4
"""share of prompt tokens in shared prefixes from which on caches beyond the GPU are said to be worth running"""


def advice(found: Mapping[str, Any]) -> Iterator[str]:
    """found: as `answers` gives it."""
    share, ideal, fleet = found["shared_prefix_share"], found["ideal_hit_ratio"], found["fleet"]
    verdict = "more" if share > WORTH_SHARING else "less"
    yield (
        f"{share:.0%} of all prompt tokens lie in prefixes that other requests have, too: {verdict} than the "
        f"{WORTH_SHARING:.0%} from which on a shared cache is commonly said to be worth it."
    )
    if "observed" in found:
        yield _observed(found["observed"])
    policies = found["policies"]
    aware, plain = policies["kv-aware"], policies["round-robin"]
    yield (
        f"Of {ideal:.1%} that can be found in any cache, {fleet['replicas']} replicas would find "
        f"{aware['hit_ratio']:.1%} with kv-aware and {plain['hit_ratio']:.1%} with round-robin; half of the first "
        f"tokens come within {aware['ttft_p50_ms']:.0f} ms instead of {plain['ttft_p50_ms']:.0f} ms."
    )
    saved = plain["prefill_gpu_hours_per_day"] - aware["prefill_gpu_hours_per_day"]
    price = fleet["gpu_hour_price"]
    money = f", {saved * price:,.2f} in money" if price is not None else ""
    yield f"Against round-robin kv-aware saves {saved:,.1f} GPU hours of prefill a day{money}."
    yield _replicas(found["replicas"], fleet["replicas"])
    yield _storage(found)


def _observed(observed: Mapping[str, Any]) -> str:
    compared = observed["compared"]
    if compared["hit_ratio"] is None or observed["ttft_p50_ms"] is None:
        return f"Engines reported no cached tokens of these {observed['requests']:,} requests."
    return (
        f"So it was: {compared['hit_ratio']:.1%} of prompt tokens came from caches, "
        f"{compared['predicted_hit_ratio']:.1%} were predicted to; half of the first tokens came within "
        f"{observed['ttft_p50_ms']:.0f} ms, predicted {compared['predicted_ttft_p50_ms'] or 0:.0f} ms."
    )


def _replicas(counts: Mapping[str, Any], now: int) -> str:
    now_p90 = counts[str(now)]["ttft_p90_ms"]
    more = counts[str(now + 1)]["ttft_p90_ms"]
    text = f"One replica more would bring the 90th percentile of the first token from {now_p90:.0f} to {more:.0f} ms"
    less = counts.get(str(now - 1))
    return f"{text}, one less to {less['ttft_p90_ms']:.0f} ms." if less else f"{text}."


def _storage(found: Mapping[str, Any]) -> str:
    fleet, on, off = found["fleet"], found["l2"]["on"], found["l2"]["off"]
    even = found["l2_break_even_tokens"][fleet["profile"]]
    speed = f"At {fleet['l2_gigabytes_per_second']:g} GB/s shared storage"
    if even is None:
        return f"{speed} never loads sooner than this model computes: it does not pay."
    pays = "pays" if on["ttft_p50_ms"] < off["ttft_p50_ms"] else "does not pay"
    return (
        f"{speed} loads sooner than this model computes from {even:,} tokens on. With it half of the first tokens "
        f"would come within {on['ttft_p50_ms']:.0f} ms instead of {off['ttft_p50_ms']:.0f} ms: here it {pays}."
    )
