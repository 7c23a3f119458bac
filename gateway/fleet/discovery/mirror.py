"""A copy of some of the API's objects that is right again after any fault, within the time between two lists."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing
from time import time
from typing import Generic, TypeVar

import msgspec

from gateway.fleet.discovery.kube_api import Collection, KubeApi, KubeError
from gateway.fleet.discovery.kube_objects import EndpointSlice, Pod, WatchEvent
from gateway.fleet.discovery.source import Backoff, Reports

logger = logging.getLogger(__name__)

Kept = TypeVar("Kept", Pod, EndpointSlice)


class Mirror(Generic[Kept]):
    """Lists, then watches until the watch ends or `relist` seconds are over, then lists again.

    So there is no state that only an event could put right: one that was missed, a connection that died unnoticed, a
    version that the server forgot, all are put right by the next list. While the API can't be asked, the copy stays as
    it was.

    changed: called after each change to the copy.
    """

    def __init__(
        self,
        api: KubeApi,
        collection: Collection,
        kind: type[Kept],
        relist: float,
        backoff: Backoff,
        reports: Reports,
        changed: Callable[[], None],
    ) -> None:
        self._api = api
        self._collection = collection
        self._decoder: msgspec.json.Decoder[Kept] = msgspec.json.Decoder(kind)
        self._relist = relist
        self._backoff = backoff
        self._reports = reports
        self._changed = changed
        self._objects: dict[tuple[str, str], Kept] | None = None

    @property
    def objects(self) -> Iterable[Kept] | None:
        """The copy; None until the first list."""
        return None if self._objects is None else self._objects.values()

    async def run(self) -> None:
        """Keep the copy right until cancelled."""
        failures = 0
        while True:
            try:
                await self._follow()
                failures = 0
            except KubeError as exc:
                # A version that was forgotten is no failure of the server: the next list is due at once.
                failures = 0 if exc.kind == "expired" else failures + 1
                if self._reports.failed(self._collection.path, exc.kind, str(exc)):
                    logger.warning("discovery: %s: %s", self._collection.path, exc)
            await asyncio.sleep(self._backoff.pause(failures))

    async def _follow(self) -> None:
        """One list and the watch that goes on from it. Raises KubeError."""
        items, version = await self._api.list(self._collection)
        listed = [self._read(item) for item in items]
        self._objects = {_key(found): found for found in listed}
        self._reports.succeeded(self._collection.path, time())
        self._changed()
        try:
            async with (
                asyncio.timeout(self._relist),
                aclosing(self._api.watch(self._collection, version, self._relist)) as events,
            ):
                async for event in events:
                    self._take(event)
        except TimeoutError:
            pass  # time to list again

    def _take(self, event: WatchEvent) -> None:
        assert self._objects is not None
        if event.type == "BOOKMARK":
            return
        found = self._read(event.object)
        if event.type == "DELETED":
            self._objects.pop(_key(found), None)
        else:
            self._objects[_key(found)] = found
        self._reports.succeeded(self._collection.path, time())
        self._changed()

    def _read(self, item: msgspec.Raw) -> Kept:
        try:
            return self._decoder.decode(item)
        except msgspec.DecodeError as exc:
            raise KubeError("broken", f"an object can't be read: {exc}") from exc


def _key(found: Pod | EndpointSlice) -> tuple[str, str]:
    return found.metadata.namespace, found.metadata.name
