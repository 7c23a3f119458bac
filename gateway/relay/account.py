"""What is counted when a request ends: metrics, and the prediction against the truth."""

import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from gateway.metrics import Metrics
from gateway.relay.inbound import Inbound
from gateway.relay.response import Ending, Outcome
from routing.decision import Decision

logger = logging.getLogger(__name__)


class Ended(NamedTuple):
    """A request that a replica answered, when all of it is over: what there is to tell about it."""

    inbound: Inbound
    decision: Decision
    outcome: Outcome
    how: str
    """the metric's `outcome`: that of the relay, or `engine_error`"""
    ttft: float | None
    """seconds from arrival to the answer's first byte; None if none came"""
    duration: float
    """seconds from arrival to the end"""


class Accounts:
    """Keeps the books of forwarded requests.

    on_miscount: called with the model of a prompt that the engine counted otherwise than the gateway: their tokens
    differ, so what is predicted for it can't be trusted.
    listeners: called with each request that ended, in the event loop; they must be quick and must not raise.
    """

    def __init__(
        self, metrics: Metrics, on_miscount: Callable[[str], None], listeners: Sequence[Callable[[Ended], None]] = ()
    ) -> None:
        self._metrics = metrics
        self._on_miscount = on_miscount
        self._listeners = listeners
        # To find a series by its labels is most of what counting costs.
        self._requests = cache(metrics.requests.labels)
        self._duration = cache(metrics.duration.labels)
        self._ttft = cache(metrics.ttft.labels)
        self._prompt_tokens = cache(metrics.prompt_tokens.labels)
        self._cached_tokens = cache(metrics.cached_tokens.labels)
        self._prediction = cache(metrics.prediction.labels)
        self._prediction_error = cache(metrics.prediction_error.labels)

    def ended(self, inbound: Inbound, decision: Decision, block_size: int, outcome: Outcome, now: float) -> None:
        """A request that a replica answered is over. now: seconds of the clock that `inbound.arrived` is of."""
        model, policy, replica = inbound.model, decision.policy, decision.engine.replica
        failed = outcome.failed or outcome.status >= 500
        how = "engine_error" if failed and outcome.ending is Ending.COMPLETE else outcome.ending.value
        duration = now - inbound.arrived
        self._requests(model, policy, replica, how, str(outcome.status)).inc()
        self._duration(model, policy, replica).observe(duration)
        ttft = None
        if outcome.first_byte_at is not None:
            ttft = outcome.first_byte_at - inbound.arrived
            self._ttft(model, policy, replica).observe(ttft)
        self._compare(inbound, decision, block_size, outcome)
        if self._listeners:
            ended = Ended(inbound, decision, outcome, how, ttft, duration)
            for listener in self._listeners:
                listener(ended)

    def _compare(self, inbound: Inbound, decision: Decision, block_size: int, outcome: Outcome) -> None:
        model, usage = inbound.model, outcome.usage
        if usage is None:
            return
        self._prompt_tokens(model, decision.policy).inc(usage.prompt_tokens)
        if decision.cached_tokens is not None and decision.prompt_tokens != usage.prompt_tokens:
            self._metrics.miscounted.labels(model).inc()
            self._on_miscount(model)
            logger.error(
                "model %s: a prompt has %d tokens, not %d: tokenizer, template or settings differ from the engine's",
                model, usage.prompt_tokens, decision.prompt_tokens,
            )  # fmt: skip
        if usage.cached_tokens is None:
            return
        self._cached_tokens(model, decision.policy).inc(usage.cached_tokens)
        if decision.cached_tokens is None or not inbound.single:
            return
        error = decision.cached_tokens - usage.cached_tokens
        replica, policy = decision.engine.replica, decision.policy
        outcome_name = "exact" if error == 0 else "over" if error > 0 else "under"
        self._prediction(replica, policy, outcome_name).inc()
        self._prediction_error(replica, policy).observe(error / block_size)
