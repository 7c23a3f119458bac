"""Where the tokens go that a cache could have saved: of what, as metrics on one denominator."""

from functools import cache

from prometheus_client import CollectorRegistry

from gateway.relay.record import Ended
from gateway.tally import Counter

STAGES = ("prompt", "reusable", "reachable", "chosen", "delivered")
"""What was asked; what an earlier prompt had; what some replica held; what the chosen one held; what came of it."""


class LossSplit:
    """Counts the prompt tokens of each answer that reports cached tokens, by stage.

    From one stage to the next is lost: what all caches together no longer hold, what is given up for load or room, and
    what was evicted or computed otherwise than foreseen.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        tokens = Counter(
            "kvgate_prefix_tokens", "Prompt tokens that could still be saved, by stage", ("model", "policy", "stage"),
            registry,
        )  # fmt: skip
        self._series = cache(lambda model, policy: [tokens.labels(model, policy, stage) for stage in STAGES])

    def ended(self, ended: Ended) -> None:
        """Count a request that is over."""
        record = ended.record
        decision, usage = record.decision, record.usage
        if usage is None or usage.cached_tokens is None or decision.cached_tokens is None or not record.single:
            return
        delivered = usage.cached_tokens
        # What an engine found was there, whether or not its events had come.
        chosen = max(decision.cached_tokens, delivered)
        reachable = max(chosen, *(candidate.held for candidate in decision.candidates))
        # An engine's own copy may be older than what this gateway has seen.
        reusable = max(decision.reusable_tokens, reachable)
        counts = (usage.prompt_tokens, reusable, reachable, chosen, delivered)
        for series, count in zip(self._series(record.model, decision.policy), counts, strict=True):
            series.inc(count)
