"""How fast engines are against the profile, from the times to first token that it showed."""

from dataclasses import replace
from math import exp, log

from routing.cost import Profile
from routing.decision import Decision
from routing.types import EngineId, ReplicaId

_RATE = 0.1
"""Share of an error that one observation corrects."""
_OUTLIER = 0.5
"""Natural logarithm of the ratio beyond which an observation counts no more: one stall says little of the speed."""
_FURTHEST = log(16.0)
"""An engine is at most so much faster or slower than the profile."""
_CLEARLY = 0.75
"""Share of the error of what holds for all, under which an engine's own factor is used."""
_FORGETTING = 0.05
"""Share by which the errors kept follow the latest one."""
_LEAST_SEEN = 8
"""Observations until a fit is used."""
_LEAST_NEW = 64
"""Tokens to prefill from which on a first token says something of the engine's speed and not of the network's."""
_MOST_WAITING = 0.25
"""Share of its time to first token that a request may wait for others: how well that is known is another matter."""


def tells_speed(decision: Decision, cached: int) -> bool:
    """Whether a request's time to first token says how fast the engine is. cached: tokens that it found there."""
    prediction = decision.prediction
    return (
        cached == decision.cached_tokens
        and decision.new_tokens >= _LEAST_NEW
        and prediction.queue <= _MOST_WAITING * prediction.ttft
    )


class SpeedFit:
    """A factor on all times of the profile but those of loading from host memory, for the fleet and for each engine.

    Follows the logarithm of observed over predicted in bounded steps, so it forgets and one outlier moves it little.
    The fleet's factor is used while it errs less than the profile alone; an engine's own only while it errs clearly
    less than what holds for all, or chance would make equal engines look different and move requests about.

    profile: what is believed before anything was seen.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._fleet = _Fitted(profile, 1.0)
        self._engines: dict[EngineId, _Fitted] = {}

    def profile(self, engine: EngineId) -> Profile:
        """How fast the engine is thought to be."""
        own = self._engines.get(engine)
        if own is not None and own.better:
            return own.profile
        return self._fleet.profile if self._fleet.better else self._profile

    def factor(self, engine: EngineId) -> float:
        """Times of the profile are multiplied by this; 1.0 while nothing better is known."""
        used = self._used(engine)
        return exp(used.log) if used else 1.0

    def errors(self, engine: EngineId) -> tuple[float, float]:
        """Mean distance of late between the logarithms of predicted and observed: by the fit, by the profile alone.

        Zeros before anything was seen.
        """
        own = self._engines.get(engine)
        return (own.used_error, own.profile_error) if own else (0.0, 0.0)

    def observe(self, engine: EngineId, by_profile: float, observed: float) -> None:
        """A first token came `observed` seconds after its request, where the profile alone had said `by_profile`.

        Both > 0; others are passed over.
        """
        if by_profile <= 0 or observed <= 0:
            return
        ratio = log(observed / by_profile)
        used = self._used(engine)
        own = self._engines.get(engine)
        if own is None:
            own = self._engines[engine] = _Fitted(self._profile, _CLEARLY)
        own.observe(ratio, self._fleet.log if self._fleet.better else 0.0, used.log if used else 0.0)
        self._fleet.observe(ratio, 0.0, 0.0)

    def forget(self, replica: ReplicaId) -> None:
        """The replica does not come back: another one of its name may be on other hardware."""
        for engine in [engine for engine in self._engines if engine.replica == replica]:
            del self._engines[engine]

    def _used(self, engine: EngineId) -> "_Fitted | None":
        own = self._engines.get(engine)
        if own and own.better:
            return own
        return self._fleet if self._fleet.better else None


class _Fitted:
    """One factor and how well it does. margin: how much less than its rival it has to err, as a share."""

    __slots__ = (
        "_base", "_error", "_margin", "_rival_error", "_seen", "better", "log", "profile", "profile_error", "used_error"
    )  # fmt: skip

    def __init__(self, base: Profile, margin: float) -> None:
        self._base = base
        self._margin = margin
        self._seen = 0
        self._error = self._rival_error = 0.0
        self.log = 0.0
        self.profile = base
        self.used_error = self.profile_error = 0.0
        self.better = False
        """whether it does better than what would be used without it"""

    def observe(self, ratio: float, rival: float, used: float) -> None:
        """All are logarithms: observed over predicted; what the rival, and what was used, say of that."""
        self._seen += 1
        weight = max(_FORGETTING, 1 / self._seen)
        self._error += weight * (abs(ratio - self.log) - self._error)
        self._rival_error += weight * (abs(ratio - rival) - self._rival_error)
        self.used_error += weight * (abs(ratio - used) - self.used_error)
        self.profile_error += weight * (abs(ratio) - self.profile_error)
        step = max(-_OUTLIER, min(_OUTLIER, ratio - self.log))
        self.log = max(-_FURTHEST, min(_FURTHEST, self.log + _RATE * step))
        self.profile = scaled(self._base, exp(self.log))
        self.better = self._seen >= _LEAST_SEEN and self._error < self._margin * self._rival_error


def scaled(profile: Profile, factor: float) -> Profile:
    """A profile that takes `factor` times as long to compute."""
    return replace(
        profile,
        prefill_base=profile.prefill_base * factor,
        prefill_per_token=profile.prefill_per_token * factor,
        prefill_per_token_squared=profile.prefill_per_token_squared * factor,
        decode_base=profile.decode_base * factor,
        decode_per_request=profile.decode_per_request * factor,
        decode_per_request_token=profile.decode_per_request_token * factor,
    )
