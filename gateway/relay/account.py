"""What is written down when a request ends: metrics, the prediction against the truth, one log line."""

import logging
from collections.abc import Callable
from functools import cache

from gateway.metrics import Metrics
from gateway.relay.inbound import Inbound
from gateway.relay.response import Ending, Outcome
from routing.decision import Decision

logger = logging.getLogger(__name__)


class Accounts:
    """Keeps the books of forwarded requests.

    write: takes the line of each request; None for none.
    on_miscount: called with the model of a prompt that the engine counted otherwise than the gateway: their tokens
    differ, so what is predicted for it can't be trusted.
    """

    def __init__(
        self, metrics: Metrics, write: Callable[[str], None] | None, on_miscount: Callable[[str], None]
    ) -> None:
        self._metrics = metrics
        self._on_miscount = on_miscount
        self._write = write
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
        self._requests(model, policy, replica, how, str(outcome.status)).inc()
        self._duration(model, policy, replica).observe(now - inbound.arrived)
        ttft = None
        if outcome.first_byte_at is not None:
            ttft = outcome.first_byte_at - inbound.arrived
            self._ttft(model, policy, replica).observe(ttft)
        self._compare(inbound, decision, block_size, outcome)
        if self._write is not None:
            self._write(_line(inbound, decision, outcome, how, ttft, now - inbound.arrived))

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


def _line(inbound: Inbound, decision: Decision, outcome: Outcome, how: str, ttft: float | None, duration: float) -> str:
    """A request in one line: never text, tokens or keys."""
    usage = outcome.usage
    prompt, cached = (usage.prompt_tokens, usage.cached_tokens) if usage else (None, None)
    first = "None" if ttft is None else f"{ttft:.4f}"
    return (
        f"{inbound.id} model={inbound.model} replica={decision.engine.replica} engine={decision.engine.rank} "
        f"policy={decision.policy} outcome={how} status={outcome.status} prompt={prompt} cached={cached} "
        f"predicted={decision.cached_tokens} ttft={first} duration={duration:.4f} reason={decision.reason}"
    )
