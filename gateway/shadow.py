"""A policy that decides along and is not followed: what it would have done, as metrics."""

from functools import cache

from prometheus_client import CollectorRegistry

from gateway.tally import Counter
from routing.decision import Decision
from routing.policies import Policy


class Shadow:
    """Judges the candidates of each decision by another policy.

    Both look at the caches as the policy that is followed has made them, so this says how the two would decide about
    the next request, not what caches would hold had the other one been followed all along.
    """

    def __init__(self, policy: Policy, registry: CollectorRegistry) -> None:
        self.policy = policy
        decisions = Counter(
            "kvgate_shadow_decisions", "Decisions that a policy took along, by whether it chose the same engine",
            ("model", "policy", "shadow", "choice"), registry,
        )  # fmt: skip
        labels = ("model", "policy", "shadow", "by")
        tokens = Counter(
            "kvgate_shadow_cached_tokens", "Prompt tokens held where each of the two chose", labels, registry
        )
        seconds = Counter(
            "kvgate_shadow_predicted_ttft_seconds", "Predicted time to first token where each of the two chose", labels,
            registry,
        )  # fmt: skip
        name = policy.name
        self._decisions = cache(lambda model, served, choice: decisions.labels(model, served, name, choice))
        self._tokens = cache(lambda model, served, by: tokens.labels(model, served, name, by))
        self._seconds = cache(lambda model, served, by: seconds.labels(model, served, name, by))

    def judge(self, model: str, decision: Decision, session: str | None) -> None:
        """Decide along. Nothing comes of it but numbers."""
        chosen = self.policy.choose(decision.candidates, session).candidate
        same = chosen.engine == decision.engine
        self._decisions(model, decision.policy, "same" if same else "other").inc()
        self._tokens(model, decision.policy, "served").inc(decision.held_tokens)
        self._tokens(model, decision.policy, "shadow").inc(chosen.held)
        self._seconds(model, decision.policy, "served").inc(decision.prediction.ttft)
        self._seconds(model, decision.policy, "shadow").inc(chosen.prediction.ttft)
