"""Builds what a gateway has for shared storage."""

from collections.abc import Callable
from functools import partial

import httpx
from prometheus_client import CollectorRegistry

from gateway.background import Background
from gateway.config.l2 import L2, SharedModel
from gateway.l2.comparison import Comparison
from gateway.l2.coordinator import coordinator_routes
from gateway.l2.directory import Directory
from gateway.l2.health import Health
from gateway.l2.key_directory import KeyDirectory
from gateway.l2.metrics import L2Metrics
from gateway.l2.prefetch import Prefetcher
from gateway.l2.servers import Servers
from gateway.l2.storage import Place, SharedStorage
from gateway.l2.store import Store
from gateway.l2.workers import Workers
from routing.fleet import Fleet
from routing.flights import Flights


class L2Parts:
    """The objects and what runs beside the requests. Made inside a running event loop."""

    def __init__(
        self,
        settings: L2,
        fleet: Fleet,
        registry: CollectorRegistry,
        client: httpx.AsyncClient,
        background: Background,
        now: Callable[[], float],
    ) -> None:
        """now: seconds, monotonic."""
        self._settings = settings
        self._now = now
        names = ("l2-check", "l2-read", "l2-list")
        self._workers = [Workers(settings.threads, "l2"), *(Workers(1, name) for name in names)]
        looking, checking, reading, self._listing = self._workers
        metrics = L2Metrics(registry)
        self.directory = KeyDirectory(now) if settings.coordinator else None
        self.routes = coordinator_routes(self.directory) if self.directory else None
        """what LMCache's servers call, where they report here"""
        places = {name: Place(model, self._store(model)) for name, model in settings.models.items()}
        self._stores = [place.store for place in places.values()]
        self._health = Health(settings, self._stores, checking, reading, metrics, now)
        self.storage = SharedStorage(settings, places, fleet, looking, self._health, metrics, now, self.directory)
        self.prefetcher = (
            Prefetcher(settings, settings.server, fleet, client, background, metrics) if settings.prefetch else None
        )
        self.flights = Flights(settings.single_flight)
        self._tasks = [background.keep("shared storage", self._health.run)]
        self._servers = Servers(settings, fleet, client)
        self._tasks.append(background.keep("LMCache servers", self._servers.run))
        self._comparisons = []
        for name, place in places.items():
            if settings.path is not None and place.settings.writer != "vllm":
                root = partial(_root, fleet, name)
                place.comparison = Comparison(name, place.settings, settings.path, root, metrics)
                self._comparisons.append(place.comparison)
                run = partial(place.comparison.run, self._listing, settings.compare_interval)
                self._tasks.append(background.keep("comparison", run))

    def faults(self) -> list[str]:
        """What is not as it should be, in words."""
        return [*self._health.faults(), *self.storage.faults(), *self._servers.faults]

    async def compare(self) -> None:
        """Compare the settings with the files that are there, now."""
        for comparison in self._comparisons:
            await comparison.compare(self._listing)

    def close(self) -> None:
        """Stop. Threads that hang are left behind."""
        for task in self._tasks:
            task.cancel()
        for workers in self._workers:
            workers.close()
        for store in self._stores:
            store.close()

    def _store(self, model: SharedModel) -> Store:
        settings = self._settings
        if self.directory is not None:
            return self.directory
        if settings.url is not None:
            from gateway.l2.redis_store import redis_store  # a tenth of a second for those who store there

            return redis_store(settings.url)
        assert settings.path is not None
        return Directory(
            settings.path,
            self._now,
            file_bytes=model.file_bytes,
            positive_age=settings.positive_age,
            negative_age=settings.negative_age,
        )


def _root(fleet: Fleet, model: str) -> str:
    """The path or id that a model's replicas name; empty while there are none."""
    serving = fleet.serving(model)
    return serving[0].replica.base.root if serving else ""
