"""One request until a replica has taken it: whom to ask, whom to ask next, and what it says of their health."""

import logging
from collections.abc import Callable, Set
from functools import cache
from random import Random

from msgspec.structs import replace

from gateway.choosing import Chooser, Found
from gateway.config import Limits
from gateway.errors import NoConnection, UpstreamBusy, UpstreamError, UpstreamUnreachable
from gateway.metrics import Metrics
from gateway.relay.budget import RetryBudget
from gateway.relay.forward import Forwarder
from gateway.relay.inbound import Inbound
from gateway.relay.response import Ending, Outcome
from gateway.relay.watch import ClientWatch
from routing.breaker import Fault
from routing.decision import Decision, RouteRequest
from routing.errors import NoReplicaAvailable
from routing.health import Health
from routing.policies import Policy
from routing.types import ReplicaId

logger = logging.getLogger(__name__)


class Attempts:
    """Sends requests on, to another replica where nothing can have been done at the first.

    now: seconds of a monotonic clock.
    """

    def __init__(
        self,
        chooser: Chooser,
        forwarder: Forwarder,
        health: Health,
        limits: Limits,
        metrics: Metrics,
        random: Random,
        now: Callable[[], float],
    ) -> None:
        self._chooser = chooser
        self._forwarder = forwarder
        self._health = health
        self._most = limits.attempts
        self._budget = RetryBudget(limits.retry_share, limits.retry_reserve)
        self._metrics = metrics
        self._decision = cache(metrics.decision.labels)
        self._random = random
        self._now = now

    async def run(
        self, inbound: Inbound, route: RouteRequest, found: Found, policy: Policy, watch: ClientWatch
    ) -> Outcome:
        """Returns how it ended. Raises what the last failure was, or RoutingError, ClientGone."""
        self._budget.request()
        tried: set[ReplicaId] = set()
        decision = self._decide(route, found, policy, tried)
        asked = self._now()
        self._decision(policy.name).observe(inbound.own(asked))
        while True:
            replica = decision.engine.replica
            try:
                return await self._ask(inbound, decision, watch)
            except UpstreamUnreachable as exc:  # nothing was done there, so another one may do it
                logger.warning("replica %s: request %s was not taken: %s", replica, inbound.id, exc)
                tried.add(replica)
                failed = self._now()
                inbound = replace(inbound, elsewhere=inbound.elsewhere + failed - asked)
                asked = failed
                another = self._another(inbound, route, found, policy, tried)
                if another is None:
                    raise
                decision = another

    def _another(
        self, inbound: Inbound, route: RouteRequest, found: Found, policy: Policy, tried: Set[ReplicaId]
    ) -> Decision | None:
        """Where a request goes that was not taken; None where it is not sent again."""
        refused = self._refused(inbound, tried)
        if refused is None:
            try:
                decision = self._decide(route, found, policy, tried)
            except NoReplicaAvailable:
                refused = "nobody"
            else:
                self._budget.spend()
                self._metrics.retries.labels(decision.engine.replica).inc()
                return decision
        self._metrics.retries_refused.labels(refused).inc()
        logger.warning("request %s is not sent again: %s", inbound.id, refused)
        return None

    def _refused(self, inbound: Inbound, tried: Set[ReplicaId]) -> str | None:
        """Why a request may not be sent again, whoever is there: the metric's `reason`."""
        if inbound.upload is not None and inbound.upload.sent:
            return "upload"
        if len(tried) >= self._most or (inbound.deadline is not None and self._now() >= inbound.deadline):
            return "attempts"
        return None if self._budget.left else "budget"

    def _decide(self, route: RouteRequest, found: Found, policy: Policy, tried: Set[ReplicaId]) -> Decision:
        now = self._now()
        always, rather = self._health.out(now, self._random.random())
        bound = route.replica
        if bound is not None:  # what it keeps nobody else can give, be it new or draining
            if bound in tried or self._health.rests(bound, now):
                raise NoReplicaAvailable(route.model)
            always, rather = always - {bound}, rather - {bound}
        if len(rather) > len(always):
            try:
                return self._chooser.decide(route, found, policy, now, rather | tried)
            except NoReplicaAvailable:
                pass  # one that has just joined, or that took nothing just now, is better than none
        return self._chooser.decide(route, found, policy, now, always | tried if always else tried)

    async def _ask(self, inbound: Inbound, decision: Decision, watch: ClientWatch) -> Outcome:
        """One attempt, and what it says of the replica."""
        replica, health = decision.engine.replica, self._health
        trial = health.begin(replica)
        answering = (lambda: self._answers(replica)) if trial else None
        try:
            outcome = await self._forwarder.forward(inbound, decision, watch, answering)
        except NoConnection:
            raise
        except UpstreamBusy:
            health.busy(replica, self._now())
            raise
        except UpstreamUnreachable:
            self._failed(replica, Fault.CONNECTION, inbound, trial)
            raise
        except UpstreamError:
            self._failed(replica, Fault.APPLICATION, inbound, trial)
            raise
        finally:
            if trial:
                health.end_trial(replica)
        if outcome.ending in (Ending.UPSTREAM_BROKEN, Ending.UPSTREAM_TIMEOUT) or _is_fault(outcome):
            self._failed(replica, Fault.APPLICATION, inbound, trial)
        elif outcome.ending is Ending.COMPLETE and outcome.status < 300:
            health.succeed(replica)
        return outcome

    def _answers(self, replica: ReplicaId) -> None:
        if self._health.answer(replica, trial=True):
            logger.info("replica %s answers again", replica)

    def _failed(self, replica: ReplicaId, fault: Fault, inbound: Inbound, trial: bool) -> None:
        if self._health.fail(replica, fault, hash(inbound.body), self._now(), trial=trial):
            self._metrics.ejections.labels(replica, fault.value).inc()
            logger.warning("replica %s gets no requests for a while: %s faults", replica, fault.value)


def _is_fault(outcome: Outcome) -> bool:
    """A failure of the engine's: not that it does not know how (501), nor that it takes nothing now (503)."""
    return outcome.failed or (outcome.status >= 500 and outcome.status not in (501, 503, 505))
