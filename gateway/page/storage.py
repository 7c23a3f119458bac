"""What the page says of shared storage: how it is, and from which length a load from it pays."""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry

from gateway.config.l2 import L2, SharedModel
from routing.cost import Profile

_PREFIX = "kvgate_l2_"
_FIGURES = tuple(
    _PREFIX + name
    for name in (
        "off", "mismatch", "false_hint_ratio", "hints_total", "promised_tokens_total", "look_ups_total", "load_scale",
        "prefetches_total", "used_ratio",
    )
)  # fmt: skip
_USUAL_RATE: float = SharedModel.model_fields["gigabytes_per_second"].default


def shown(
    settings: L2 | None, faults: Sequence[str], profile: Profile, registry: CollectorRegistry
) -> Mapping[str, object]:
    """A verdict in words, and the figures of its health; none where there is no shared storage."""
    if settings is None:
        least = profile.prefill_per_token * _USUAL_RATE * 1e9
        verdict = (
            f"None is set up. A token takes {profile.prefill_per_token * 1e6:.0f} µs to prefill here, so at Curvine's "
            f"published {_USUAL_RATE} GB/s loading pays for models with less than {least / 1e3:,.0f} kB of "
            "KV cache a token."
        )
        return {"verdict": verdict, "health": {}}
    told = [f"{name}: {_pays(break_even_tokens(model, profile))}" for name, model in settings.models.items()]
    return {"verdict": "; ".join([*(faults or ["It counts"]), *told]) + ".", "health": _figures(registry)}


def break_even_tokens(model: SharedModel, profile: Profile) -> int | None:
    """Tokens from which a load takes less time than their prefill; None where it never does, or its size is unknown."""
    gain = profile.prefill_per_token - model.seconds_per_token
    if not model.kv_bytes_per_token or gain <= 0:
        return None
    return max(model.min_tokens, round(model.load_base / gain))


def _pays(tokens: int | None) -> str:
    if tokens is None:
        return "a load never takes less than the prefill, or the size of a token is not set"
    return f"a load pays from {tokens:,} tokens on"


def _figures(registry: CollectorRegistry) -> Mapping[str, float]:
    """The metrics of shared storage, by their meaning and labels."""
    found: dict[str, float] = {}
    for family in registry.restricted_registry(_FIGURES).collect():
        for sample in family.samples:
            labels = ", ".join(sample.labels.values())
            found[f"{family.name.removeprefix(_PREFIX)} {labels}".strip().replace("_", " ")] = sample.value
    return found
