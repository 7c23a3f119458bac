"""What a gateway's log says came of its requests: hits and first tokens beside those predicted, and who saved what."""

from dataclasses import dataclass, field
from typing import Any

from gateway.page.traffic import Times
from loadtest.replica.timing import Profile
from loadtest.traces.trace import Answered, TraceRequest

TENANTS = 100
"""that are told by name; all others together"""
OTHERS = "(others)"
PERCENTS = (50, 90, 99)


@dataclass(slots=True)
class Group:
    """Requests that were answered, of a policy or a tenant."""

    requests: int = 0
    prompt_tokens: int = 0
    """of those whose engine told what was cached, as is the next"""
    cached_tokens: int = 0
    saved: float = 0.0
    """engine seconds that the prefill of the cached tokens would have taken"""
    ttft: Times = field(default_factory=Times)

    def add(self, request: TraceRequest, answered: Answered, profile: Profile) -> None:
        """Count one."""
        prompt, cached = request.prompt_tokens, answered.cached
        self.requests += 1
        if answered.ttft is not None:
            self.ttft.add(answered.ttft)
        if cached is None or not prompt:
            return
        self.prompt_tokens += prompt
        self.cached_tokens += cached
        rest = max(1, prompt - cached)
        self.saved += (profile.prefill_ms(prompt, 0) - profile.prefill_ms(rest, prompt - rest)) / 1e3

    def told(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "requests": self.requests,
            "hit_ratio": _share(self.cached_tokens, self.prompt_tokens),
            **{f"ttft_p{percent}_ms": _ms(self.ttft, percent) for percent in PERCENTS},
        }


class Happened:
    """Takes in requests of a log, in bounded memory. profile: what prefill costs. gpus: of one replica."""

    def __init__(self, profile: Profile, gpus: int) -> None:
        self._profile, self._gpus = profile, gpus
        self._all = Group()
        self._policies: dict[str, Group] = {}
        self._tenants: dict[str, Group] = {}
        self._outcomes = {"exact": 0, "over": 0, "under": 0}
        self._compared = self._predicted = self._reported = 0
        self._predicted_ttft, self._ttft_error = Times(), Times()

    def add(self, request: TraceRequest) -> None:
        """Count a request, if its answer is known."""
        answered = request.answered
        if answered is None:
            return
        tenant = answered.tenant if answered.tenant in self._tenants or len(self._tenants) < TENANTS else OTHERS
        for group in (
            self._all,
            self._policies.setdefault(answered.policy, Group()),
            self._tenants.setdefault(tenant, Group()),
        ):
            group.add(request, answered, self._profile)
        if answered.cached is not None and answered.predicted is not None:
            off = answered.predicted - answered.cached
            self._outcomes["over" if off > 0 else "under" if off < 0 else "exact"] += 1
            self._compared += request.prompt_tokens
            self._predicted += answered.predicted
            self._reported += answered.cached
        if answered.ttft is not None and answered.predicted_ttft is not None:
            self._predicted_ttft.add(answered.predicted_ttft)
            self._ttft_error.add(abs(answered.predicted_ttft - answered.ttft))

    def told(self, price: float | None) -> dict[str, Any] | None:
        """For JSON; None where the trace says nothing of answers. price: of a GPU hour."""
        if not self._all.requests:
            return None
        return {
            **self._all.told(),
            "compared": {
                "predicted_hit_ratio": _share(self._predicted, self._compared),
                "hit_ratio": _share(self._reported, self._compared),
                "predictions": self._outcomes,
                **{f"predicted_ttft_p{percent}_ms": _ms(self._predicted_ttft, percent) for percent in PERCENTS},
                "ttft_error_p50_ms": _ms(self._ttft_error, 50),
            },
            "policies": {name: group.told() for name, group in sorted(self._policies.items())},
            "tenants": {
                name: self._savings(group, price)
                for name, group in sorted(self._tenants.items(), key=lambda named: -named[1].saved)
            },
        }

    def _savings(self, group: Group, price: float | None) -> dict[str, Any]:
        hours = group.saved * self._gpus / 3600
        told = {
            **group.told(),
            "prompt_tokens": group.prompt_tokens,
            "cached_tokens": group.cached_tokens,
            "saved_ms": round(group.saved * 1e3, 1),
            "saved_gpu_hours": round(hours, 4),
        }
        return told if price is None else {**told, "saved": round(hours * price, 4)}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _ms(times: Times, percent: int) -> float | None:
    seconds = times.quantile(percent / 100)
    return None if seconds is None else round(seconds * 1e3, 2)
