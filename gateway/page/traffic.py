"""The last minutes of traffic in slices of a few seconds: bounded however much there is."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log

from gateway.relay.record import Ended
from routing.cost import Profile

SLICE = 5.0
"""seconds"""
SLICES = 120

_FINEST = 0.0005
_GROWTH = 1.1
_BINS = 130
"""times to first token from 0.5 ms to two minutes, to within 5 %"""
_PER_GROWTH = 1 / log(_GROWTH)


class Times:
    """Counts of durations by size, from which quantiles are read to within 5 %."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """Count one."""
        place = 0 if seconds <= _FINEST else min(_BINS, ceil(log(seconds / _FINEST) * _PER_GROWTH))
        self._counts[place] = self._counts.get(place, 0) + 1

    def include(self, other: "Times") -> None:
        """Count those of another too."""
        for place, count in other._counts.items():
            self._counts[place] = self._counts.get(place, 0) + count

    def quantile(self, share: float) -> float | None:
        """Seconds that `share` (0 to 1) of the durations do not exceed; None where there are none."""
        rest = share * sum(self._counts.values())
        for place in sorted(self._counts):
            rest -= self._counts[place]
            if rest <= 0:
                return float(_FINEST * _GROWTH ** (place - 0.5))
        return None


@dataclass(slots=True)
class Slice:
    """Requests that ended in one stretch of time."""

    begun: float = 0.0
    """seconds since the epoch"""
    requests: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    """of the requests whose engine told how many were cached, as is the next"""
    cached_tokens: int = 0
    saved: float = 0.0
    """seconds of prefill that the cached tokens would have taken"""
    exact: int = 0
    over: int = 0
    under: int = 0
    ttft: Times = field(default_factory=Times)

    def include(self, other: "Slice") -> None:
        """Add another's counts."""
        self.requests += other.requests
        self.failed += other.failed
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.saved += other.saved
        self.exact += other.exact
        self.over += other.over
        self.under += other.under
        self.ttft.include(other.ttft)

    def shown(self) -> Mapping[str, object]:
        """For JSON. hit_ratio: of tokens; None where no engine told."""
        p50, p90 = self.ttft.quantile(0.5), self.ttft.quantile(0.9)
        return {
            "at": self.begun,
            "requests": self.requests,
            "failed": self.failed,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "hit_ratio": round(self.cached_tokens / self.prompt_tokens, 4) if self.prompt_tokens else None,
            "saved_ms": round(self.saved * 1e3, 1),
            "predictions": {"exact": self.exact, "over": self.over, "under": self.under},
            "ttft_p50_ms": None if p50 is None else round(p50 * 1e3, 2),
            "ttft_p90_ms": None if p90 is None else round(p90 * 1e3, 2),
        }


class Traffic:
    """Takes in requests as they end.

    profile: what prefill costs. clock: seconds since the epoch.
    """

    def __init__(self, profile: Profile, clock: Callable[[], float]) -> None:
        self._profile = profile
        self._clock = clock
        self._slices: deque[Slice] = deque(maxlen=SLICES)

    def add(self, ended: Ended) -> None:
        """Count a request that is over."""
        record, current = ended.record, self._current()
        current.requests += 1
        current.failed += record.how not in ("complete", "client_gone") or record.status >= 500
        if record.ttft is not None:
            current.ttft.add(record.ttft)
        usage = record.usage
        if usage is None or usage.cached_tokens is None:
            return
        prompt, cached = usage.prompt_tokens, usage.cached_tokens
        current.prompt_tokens += prompt
        current.cached_tokens += cached
        if cached:
            current.saved += self._profile.spared(cached)
        predicted = record.decision.cached_tokens
        if predicted is not None and record.single:
            current.exact += predicted == cached
            current.over += predicted > cached
            current.under += predicted < cached

    def last(self, seconds: float) -> Slice:
        """All that ended in the last `seconds`, to within a slice."""
        since = self._clock() - seconds
        total = Slice(since)
        for part in self._slices:
            if part.begun + SLICE > since:
                total.include(part)
        return total

    def series(self) -> Sequence[Slice]:
        """The slices in which anything ended, in order."""
        return list(self._slices)

    def _current(self) -> Slice:
        begun = self._clock() // SLICE * SLICE
        if not self._slices or self._slices[-1].begun < begun:
            self._slices.append(Slice(begun))
        return self._slices[-1]
