"""Builds what a gateway has for shared storage."""

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from gateway.config.l2 import L2, SharedModel
from gateway.l2.directory import Directory
from gateway.l2.health import Health
from gateway.l2.metrics import L2Metrics
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
        group: asyncio.TaskGroup,
        now: Callable[[], float],
    ) -> None:
        """now: seconds, monotonic."""
        self._settings = settings
        self._now = now
        self._workers = [Workers(settings.threads, "l2"), Workers(1, "l2-check"), Workers(1, "l2-read")]
        looking, checking, reading = self._workers
        metrics = L2Metrics(registry)
        places = {name: Place(model, self._store(model)) for name, model in settings.models.items()}
        stores = [place.store for place in places.values()]
        self._health = Health(settings, stores, checking, reading, metrics, now)
        self.storage = SharedStorage(settings, places, fleet, looking, self._health, metrics, now)
        self.flights = Flights(settings.single_flight)
        self._tasks = [group.create_task(self._health.run())]

    def faults(self) -> list[str]:
        """What is not as it should be, in words."""
        return [*self._health.faults(), *self.storage.faults()]

    def close(self) -> None:
        """Stop. Threads that hang are left behind."""
        for task in self._tasks:
            task.cancel()
        for workers in self._workers:
            workers.close()

    def _store(self, model: SharedModel) -> Store:
        settings = self._settings
        assert settings.path is not None
        return Directory(
            settings.path,
            self._now,
            file_bytes=model.file_bytes,
            positive_age=settings.positive_age,
            negative_age=settings.negative_age,
        )
