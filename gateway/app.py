"""Builds every object of the gateway: the one place where the parts meet."""

import asyncio
import logging
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from time import monotonic

import httpx

from gateway.admission.parts import admission, changed
from gateway.aliases import AliasCollector
from gateway.api import traffic
from gateway.api.admin import create_admin
from gateway.api.openai import OpenAI
from gateway.api.replicas import replica_routes
from gateway.background import Background
from gateway.choosing import Chooser
from gateway.config import Config, ReplicaConfig
from gateway.fleet.auditor import Auditor
from gateway.fleet.canary import Canary
from gateway.fleet.connections import make_pool
from gateway.fleet.discovery.parts import DiscoveryParts
from gateway.fleet.membership import Membership
from gateway.fleet.offer import offered
from gateway.fleet.probe import Probe
from gateway.fleet.signals import SignalsCollector
from gateway.fleet.supervisor import Watch
from gateway.kv.subscriber import Subscriber
from gateway.kv.update import Update
from gateway.l2.parts import L2Parts
from gateway.log_line import LogLines
from gateway.metrics import Metrics
from gateway.page.parts import PageParts
from gateway.prompt.library import Library
from gateway.prompt.parity import ParityCheck
from gateway.prompt.remote import RemoteReader
from gateway.relay.account import Accounts
from gateway.relay.attempts import Attempts
from gateway.relay.credentials import Credentials
from gateway.relay.forward import Forwarder
from gateway.request_log import RequestLog
from gateway.savings import Savings
from gateway.shadow import Shadow
from gateway.speed import SpeedWatch
from gateway.split import LossSplit
from gateway.state import StateCollector
from gateway.stored import StoredAnswers
from gateway.tracing.parts import tracing
from gateway.traffic_log import TrafficLog
from gateway.warm_up import WarmUp
from routing.breaker import BreakerRules
from routing.fit import SpeedFit
from routing.fleet import Fleet, Replica
from routing.fresh import FreshRoutes
from routing.health import Health
from routing.history import RouteHistory
from routing.index import PrefixIndex
from routing.policies import POLICIES
from routing.reuse import ReuseChance
from routing.room import Room
from routing.router import Router
from routing.stakes import Stakes
from routing.types import ReplicaId, Tier

logger = logging.getLogger(__name__)


class Gateway:
    """Every object of one gateway process. Made inside a running event loop."""

    def __init__(
        self, config: Config, client: httpx.AsyncClient, credentials: Credentials, background: Background
    ) -> None:
        self.metrics = metrics = Metrics()
        registry = metrics.registry
        self.stopping = False
        self._config = config
        self._client = client
        self._credentials = credentials
        self._fleet = Fleet()
        rules = config.ejection
        self.health = Health(
            self._fleet,
            BreakerRules(rules.failures, rules.connections, rules.rest, rules.longest_rest),
            rules.slow_start,
        )
        self._executor = ThreadPoolExecutor(config.tokenizer_threads, thread_name_prefix="tokenizer")
        self._library = Library(config, self._executor, background)
        index = PrefixIndex()
        fresh = FreshRoutes(config.fresh_lifetime)
        history = RouteHistory(config.history_blocks, config.history_bytes, config.history_lifetime)

        def subscriber(deliver: Callable[[Update], None]) -> Subscriber:
            return Subscriber(asyncio.get_running_loop(), deliver, config.hash_secret.encode())

        def take_in(update: Update) -> None:
            self._membership.take_in(update)

        self._redis = None
        if config.index.redis_url:
            from gateway.redis.parts import RedisParts  # a tenth of a second for those who share an index

            self._redis = RedisParts(
                config.index, self._fleet, index, history, fresh, config.fresh_lifetime, subscriber, take_in,
                background, registry, monotonic,
            )  # fmt: skip
        self._subscriber = self._redis.streams if self._redis else subscriber(take_in)
        holding = self._redis or index
        remote = RemoteReader(client, monotonic, deadline=config.tokenize_timeout)
        auditor = Auditor(config.audit, self._subscriber.rebuild, metrics, monotonic)
        room = Room(ReuseChance(), config.room_lifetime, lambda engine: holding.held(engine, Tier.GPU))
        tls = config.upstream_tls.context()
        self._membership = Membership(
            self._fleet, index, fresh, history, room, self._subscriber, self._library, remote, auditor,
            lambda url: make_pool(url, config.limits, tls), metrics, monotonic,
        )  # fmt: skip
        registry.register(StateCollector(self._fleet, self.health, holding, self._membership, monotonic))

        random = Random()
        fit = SpeedFit(config.speed())
        router = Router(self._fleet, fresh, fit, Stakes(room))
        registry.register(SignalsCollector(self._fleet, router.queue, config.saturation, monotonic))
        if config.operator_metric_names:
            registry.register(AliasCollector(metrics, self._fleet))
        self._l2 = l2 = config.l2 and L2Parts(config.l2, self._fleet, registry, client, background, monotonic)
        warm_up = WarmUp(config.warm_up, self._fleet, holding, client, background, metrics, monotonic)
        shadow = Shadow(POLICIES[config.shadow_policy](random), registry) if config.shadow_policy else None
        self._chooser = Chooser(
            config, self._fleet, index, history, router, self._library, remote, self._executor, random,
            l2.storage if l2 else None, l2.flights if l2 else None, l2.prefetcher if l2 else None, self._redis,
            shadow, self._redis.gossip.note if self._redis else None, warm_up.note,
        )  # fmt: skip
        check = ParityCheck(client)
        canary = Canary(self._fleet, self._library, check, config.parity_interval, metrics, monotonic)
        self._requests = RequestLog(sys.stderr.buffer, config.log_format)
        page = PageParts(
            lambda: self._config, self.degraded, self._set_policy, self._fleet, self.health, holding, self._membership,
            registry, self._l2.faults if self._l2 else list, lambda: self.stopping,
        )  # fmt: skip
        lines = LogLines([*page.takers, *self._requests.takers])
        listeners = [
            auditor.ended, page.ended, *lines.listeners, LossSplit(registry).ended, *([l2.storage.ended] if l2 else []),
            Savings(metrics, config.speed()).ended, SpeedWatch(fit, self._fleet, registry).ended,
        ]  # fmt: skip
        self._traffic = TrafficLog(config.traffic_log, registry) if config.traffic_log else None
        listeners += [self._traffic.add] if self._traffic else []
        self.tracing = tracing(config.tracing)
        listeners += [self.tracing.ended] if self.tracing else []
        self._accounts = Accounts(metrics, self._chooser.miscounted, listeners)
        forwarder = Forwarder(
            self._fleet, self._membership, self._accounts, router.began, router.withdraw, credentials, monotonic
        )
        attempts = Attempts(self._chooser, forwarder, self.health, config.limits, metrics, random, monotonic)
        self._admission = admission(config, metrics, monotonic)
        self.openai = OpenAI(
            self._chooser, self._fleet, attempts, config.limits, metrics, StoredAnswers(), self._admission,
            config.aliases, monotonic, self._requests.unanswered, self._traffic is not None, self.tracing,
        )  # fmt: skip
        self.admin = create_admin(
            self._fleet, holding, self._chooser, metrics, self, config.limits.body_bytes, monotonic
        )
        changeable = config.listen.admin_port is not None
        self.admin.include_router(replica_routes(self._fleet, self.health, monotonic, changeable=changeable))
        self.admin.include_router(page.router)
        if l2 and l2.routes:
            self.admin.include_router(l2.routes)
        if self._traffic:
            self.admin.include_router(traffic.routes(self._traffic.files))
        self._beside = [background.keep("parity", canary.run), background.keep("warm-up", warm_up.run)]

        def forget(replica: ReplicaId) -> None:
            metrics.forget(replica)
            fit.forget(replica)
            self._accounts.forget()

        self._discovery = DiscoveryParts(
            config.discovery, background, self._make_watch, credentials.introduce, self.health.drain, forget
        )
        registry.register(self._discovery.collector)
        self._discovery.configure(config.replicas)

    def missing(self) -> list[str]:
        """What requests still have to wait for; empty when ready."""
        missing = ["the gateway stops"] if self.stopping else []
        missing += [] if len(self._fleet) else ["no replica has answered yet", *self._discovery.waiting()]
        return missing + [f"the tokenizer of {model} is being loaded" for model in self._library.loading]

    def degraded(self) -> list[str]:
        """What works, but not as it should."""
        return (
            [f"the prompts of {name} are read by the replicas: {why}" for name, why in self._library.distrusted.items()]
            + (self._l2.faults() if self._l2 else [])
            + self._discovery.troubles()
            + (self._redis.faults() if self._redis else [])
        )

    def reload(self, config: Config) -> None:
        """Take in changed settings. Running requests are not touched."""
        fixed, self._config = config.changed_for_a_start(self._config), config
        if changed(self._admission, config.admission):
            self._credentials.reload(config.admission)
        else:
            fixed.append("admission")
        self._chooser.reload(config)
        self._library.reload(config, [engine.replica for engine in self._fleet])
        self._discovery.configure(config.replicas)
        self.metrics.config_reloads.labels("applied").inc()
        logger.info("configuration read again: policy %s, %d replica(s)", config.policy, len(config.replicas))
        if fixed:
            logger.warning("changed settings that take effect with the next start: %s", ", ".join(fixed))

    async def close(self) -> None:
        """Stop what runs beside the requests."""
        if self._redis:
            await self._redis.close()
        if self._admission:
            await self._admission.close()
        self._discovery.close()
        for task in self._beside:
            task.cancel()
        if self._l2:
            self._l2.close()
        self._accounts.settle()
        self._requests.flush()
        if self._traffic:
            self._traffic.close()
        if self.tracing:
            await asyncio.to_thread(self.tracing.close)
        self._library.close()
        self._membership.close()
        self._subscriber.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _set_policy(self, policy: str) -> None:
        self._config = self._config.model_copy(update={"policy": policy})
        self._chooser.reload(self._config)
        logger.info("policy %s set on the page", policy)

    def _make_watch(self, replica: ReplicaConfig) -> Watch:
        probe, probing = Probe(self._client, replica.origin, self._config.probing.timeout), self._config.probing
        return Watch(
            probe, replica, replica.origin, probing, self._membership, self._fleet, self.health, self.metrics,
            monotonic, self._offer,
        )  # fmt: skip

    def _offer(self, replica: Replica, config: ReplicaConfig) -> Replica:
        return offered(replica, config, self._config.models)
