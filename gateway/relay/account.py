"""What is counted when a request ends: metrics, and the prediction against the truth."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import cache, partial

import msgspec

from gateway.metrics import Metrics
from gateway.relay.inbound import Inbound
from gateway.relay.record import Ended, Record
from gateway.relay.response import Ending, Outcome
from gateway.relay.usage import Usage
from routing.decision import Decision

logger = logging.getLogger(__name__)


class _Entry(msgspec.Struct, gc=False):
    """What is known of a request at the moment when it ends."""

    inbound: Inbound
    decision: Decision
    block_size: int
    outcome: Outcome
    begun: float
    now: float


class Accounts:
    """Keeps the books of forwarded requests: once in each turn of the event loop, for all that ended in it.

    So what is counted here is not fetched into the processor's caches anew for each of them.

    on_miscount: called with the model of a prompt that the engine counted otherwise than the gateway: their tokens
    differ, so what is predicted for it can't be trusted. Returns whether that is news, and goes to the log.
    listeners: called with each request that ended, in their order; they must be quick and must not raise.
    clock: seconds since the epoch.
    """

    def __init__(
        self,
        metrics: Metrics,
        on_miscount: Callable[[str], bool],
        listeners: Sequence[Callable[[Ended], None]] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._metrics = metrics
        self._on_miscount = on_miscount
        self._listeners = listeners
        self._clock = clock
        self._books = cache(partial(_Book, metrics))
        self._loop = asyncio.get_running_loop()
        self._entries: list[_Entry] = []

    def forget(self) -> None:
        """Look every series up again: some have ended."""
        self._books.cache_clear()

    def ended(
        self, inbound: Inbound, decision: Decision, block_size: int, outcome: Outcome, begun: float, now: float
    ) -> None:
        """A request that a replica answered is over.

        begun: when the connection to the replica was asked for; now: both in seconds of `inbound.arrived`'s clock.
        """
        if not self._entries:
            self._loop.call_soon(self.settle)
        self._entries.append(_Entry(inbound, decision, block_size, outcome, begun, now))

    def settle(self) -> None:
        """Enter what has ended."""
        entries, self._entries = self._entries, []
        at = self._clock()
        ended = [Ended(entry.inbound, self._enter(entry, at)) for entry in entries]
        for listener in self._listeners:
            for each in ended:
                listener(each)

    def _enter(self, entry: _Entry, at: float) -> Record:
        inbound, decision, outcome, now = entry.inbound, entry.decision, entry.outcome, entry.now
        book = self._books(inbound.model, decision.policy, decision.engine.replica)
        failed = outcome.failed or outcome.status >= 500
        how = "engine_error" if failed and outcome.ending is Ending.COMPLETE else outcome.ending.value
        duration = now - inbound.arrived
        ttft = None if outcome.first_byte_at is None else outcome.first_byte_at - inbound.arrived
        book.requests(how, outcome.status).inc()
        book.duration.observe(duration)
        overhead = inbound.own(entry.begun)
        book.overhead.observe(overhead)
        itl = _itl(outcome, now)
        if itl is not None:
            book.itl.observe(itl)
        if ttft is not None:
            book.ttft.observe(ttft)
        if outcome.usage is not None:
            self._compare(book, inbound, decision, entry.block_size, outcome.usage)
        return Record(
            inbound.id, at, inbound.client.path, inbound.model, inbound.tenant, inbound.single, decision,
            outcome.status, how, outcome.usage, outcome.done, ttft, duration, overhead, itl, len(decision.candidates),
        )  # fmt: skip

    def _compare(self, book: "_Book", inbound: Inbound, decision: Decision, block_size: int, usage: Usage) -> None:
        book.prompt_tokens.inc(usage.prompt_tokens)
        if usage.cached_tokens is not None:
            book.cached_tokens.inc(usage.cached_tokens)
        book.uncached_tokens.inc(max(0, usage.prompt_tokens - (usage.cached_tokens or 0)))
        predicted = decision.cached_tokens
        if predicted is None:
            return
        if decision.prompt_tokens != usage.prompt_tokens:
            self._metrics.miscounted.labels(inbound.model).inc()
            if self._on_miscount(inbound.model):
                logger.error(
                    "model %s: a prompt has %d tokens, not %d: tokenizer, template or settings are not the engine's",
                    inbound.model, usage.prompt_tokens, decision.prompt_tokens,
                )  # fmt: skip
        if usage.cached_tokens is None or not inbound.single:
            return
        error = predicted - usage.cached_tokens
        book.prediction("exact" if error == 0 else "over" if error > 0 else "under").inc()
        book.prediction_error.observe(error / block_size)


def _itl(outcome: Outcome, now: float) -> float | None:
    """Of a stream that came to its end, since only of that the engine tells how many tokens it had."""
    tokens = outcome.usage.completion_tokens if outcome.usage is not None else 0
    if not outcome.done or outcome.first_byte_at is None or tokens < 2:
        return None
    return (now - outcome.first_byte_at) / (tokens - 1)


class _Book:
    """The series of one model, policy and replica: to find a series by its labels is most of what counting costs."""

    def __init__(self, metrics: Metrics, model: str, policy: str, replica: str) -> None:
        self.requests = cache(lambda how, status: metrics.requests.labels(model, policy, replica, how, str(status)))
        self.duration = metrics.duration.labels(model, policy, replica)
        self.ttft = metrics.ttft.labels(model, policy, replica)
        self.itl = metrics.itl.labels(model, policy, replica)
        self.overhead = metrics.overhead.labels(model, policy, replica)
        self.prompt_tokens = metrics.prompt_tokens.labels(model, policy)
        self.cached_tokens = metrics.cached_tokens.labels(model, policy)
        self.uncached_tokens = metrics.uncached_tokens.labels(model, policy)
        self.prediction = cache(lambda outcome: metrics.prediction.labels(replica, policy, outcome))
        self.prediction_error = metrics.prediction_error.labels(replica, policy)
