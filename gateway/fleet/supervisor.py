"""Watches each replica: takes it in when it answers, keeps its load current, lets it go when it does not."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from gateway.config import Probing, ReplicaConfig
from gateway.fleet.membership import Membership
from gateway.fleet.probe import Probe, ProbeError, replica_id
from gateway.kv.sources import Source
from gateway.metrics import Metrics
from routing.fleet import Fleet, ModelCard, Replica
from routing.health import Health

logger = logging.getLogger(__name__)

Names = Sequence[tuple[str, str, str | None]]
"""Of each model listed: its name, its root, whose adapter it is. What else is listed is new with every answer."""


class Watch:
    """The life of one replica as seen from here."""

    def __init__(
        self,
        probe: Probe,
        replica: ReplicaConfig,
        url: str,
        probing: Probing,
        membership: Membership,
        fleet: Fleet,
        health: Health,
        metrics: Metrics,
        now: Callable[[], float],
        offer: Callable[[Replica, ReplicaConfig], Replica] = lambda replica, config: replica,
    ) -> None:
        """now: seconds of the clock that `health` is told; offer: what of a replica is to be served."""
        self._offer = offer
        self._probe = probe
        self._config = replica
        self._url = url
        self._id = replica_id(url)
        self._probing = probing
        self._membership = membership
        self._fleet = fleet
        self._health = health
        self._metrics = metrics
        self._now = now
        self._reason: str | None = None
        self._named: Names = ()
        self._tells_pause = True

    def change(self, replica: ReplicaConfig) -> None:
        """Take in what is said otherwise of the same replica; it counts from the next look at its description on."""
        self._config = replica

    async def run(self) -> None:
        """Watch until cancelled; then the replica leaves."""
        # One that is new is taken in at once, one that failed has to prove itself.
        wanted = 1
        try:
            while True:
                try:
                    await self._proven(wanted)
                    wanted = self._probing.successes
                    await self._member()
                except ProbeError as exc:
                    self._metrics.probe_failures.labels(self._id).inc()
                    self._leave(str(exc))
                    logger.debug("replica %s: %s", self._id, exc)
                await asyncio.sleep(self._probing.interval)
        finally:
            self._leave("no longer watched")

    def _leave(self, why: str) -> None:
        self._membership.leave(self._id, why)
        self._health.left(self._id)

    async def _proven(self, wanted: int) -> None:
        """Wait for so many good probes in a row, the last of which is joining's own. Raises ProbeError."""
        for _ in range(wanted - 1):
            if not await self._probe.healthy():
                raise ProbeError("/health is not 200")
            await asyncio.sleep(self._probing.interval)

    async def _member(self) -> None:
        """From joining to the failure that ends it, which is raised."""
        started = await self._join()
        loop = asyncio.get_running_loop()
        described = loop.time()
        failures = 0
        while True:
            await asyncio.sleep(self._probing.interval)
            try:
                if not await self._probe.healthy():
                    raise ProbeError("/health is not 200")
                named_otherwise = await self._observe(started)
                if named_otherwise or loop.time() - described >= self._probing.describe_interval:
                    await self._join()
                    described = loop.time()
                failures = 0
            except ProbeError as exc:
                if exc.late:
                    continue
                failures += 1
                if exc.refused or failures >= self._probing.failures:
                    raise
                self._metrics.probe_failures.labels(self._id).inc()

    async def _observe(self, started: float | None) -> bool:
        """Take in how busy the engines are. Returns whether other models are listed than when it joined."""
        marks = {engine.id: engine.load.mark() for engine in self._fleet if engine.id.replica == self._id}
        exposition = await self._probe.metrics()
        self._health.reachable(self._id, self._now())
        if exposition.started != started:
            raise ProbeError("it was restarted", refused=True)
        for id, mark in marks.items():
            engine, metrics = self._fleet.get(id), exposition.engines.get(id.rank)
            if engine and metrics:
                engine.load.observe(metrics.report, mark)
        await self._rest(any(metrics.asleep for metrics in exposition.engines.values()))
        return exposition.adapters and _names(await self._probe.cards()) != self._named

    async def _rest(self, asleep: bool) -> None:
        """Take a replica whose engines sleep or are paused out of rotation, and back."""
        if self._tells_pause and not asleep:
            paused = await self._probe.paused()
            self._tells_pause = paused is not None
            asleep = bool(paused)
        if self._health.sleeps(self._id, asleep):
            logger.warning("replica %s %s", self._id, "sleeps or is paused" if asleep else "is awake again")

    async def _join(self) -> float | None:
        """Take in what the replica says of itself. Returns when its process started."""
        if not await self._probe.healthy():
            raise ProbeError("/health is not 200")
        started = (await self._probe.metrics()).started
        described = await self._probe.describe()
        self._named = _names(described.cards)
        replica = self._offer(self._config.completed(described), self._config)
        sources = await self._sources(replica.ranks)
        self._tells_pause = True  # which only a server in development mode does, and it may have become one
        self._membership.join(replica, sources)
        self._health.joined(self._id, self._now())
        return started

    async def _sources(self, ranks: int) -> Mapping[int, Source]:
        if self._config.kv_events:
            return self._config.sources(ranks)
        sources = await self._probe.event_sources()
        reason = "/kv_event_sources is not served" if sources is None else sources.reason
        if reason != self._reason:
            self._reason = reason
            if reason:
                logger.error("replica %s: its cache can't be known: %s", self._id, reason)
        return {} if sources is None else sources.by_rank


def _names(cards: Iterable[ModelCard]) -> Names:
    return [(card.id, card.root, card.parent) for card in cards]
