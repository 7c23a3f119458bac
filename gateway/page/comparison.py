"""Where reuse is lost, and what another policy would have done: sums over the metrics that count it."""

from collections import defaultdict
from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from gateway.split import STAGES

_MS = 1e3


def losses(registry: CollectorRegistry) -> Mapping[str, float] | None:
    """By stage, the share of all prompt tokens that could still be saved; None before anything was counted."""
    tokens = _sums(registry, "kvgate_prefix_tokens_total", "stage")
    whole, *later = STAGES
    if not tokens[whole]:
        return None
    return {stage: round(tokens[stage] / tokens[whole], 4) for stage in later}


def shadow(registry: CollectorRegistry) -> Mapping[str, object] | None:
    """How often another policy would have chosen the same and what it would have found; None where none decides."""
    decisions = _sums(registry, "kvgate_shadow_decisions_total", "choice")
    count = sum(decisions.values())
    if not count:
        return None
    tokens = _sums(registry, "kvgate_shadow_cached_tokens_total", "by")
    seconds = _sums(registry, "kvgate_shadow_predicted_ttft_seconds_total", "by")
    return {
        "decisions": count,
        "the same choice": f"{decisions['same'] / count:.1%}",
        "tokens held where it went": tokens["served"],
        "tokens held where the shadow chose": tokens["shadow"],
        "predicted TTFT where it went, mean ms": round(seconds["served"] / count * _MS, 2),
        "predicted TTFT where the shadow chose, mean ms": round(seconds["shadow"] / count * _MS, 2),
    }


def _sums(registry: CollectorRegistry, name: str, label: str) -> Mapping[str, float]:
    """One metric's values by one of its labels, over all others; 0 for what was not counted."""
    sums: dict[str, float] = defaultdict(float)
    for family in registry.restricted_registry([name]).collect():
        for sample in family.samples:
            if sample.name == name:
                sums[sample.labels[label]] += sample.value
    return sums
