"""Builds discovery: sources, who is watched, and what ends when a replica is gone for good."""

import asyncio
from collections.abc import Callable
from random import Random

from gateway.background import Background
from gateway.config import ReplicaConfig
from gateway.config.discovery import Discovery as Settings
from gateway.fleet.discovery.discovery import Discovery
from gateway.fleet.discovery.reconcile import Identity
from gateway.fleet.discovery.roster import Roster, Watching
from gateway.fleet.discovery.sources import make_sources
from gateway.fleet.discovery.state import DiscoveryCollector
from gateway.fleet.probe import replica_id
from routing.types import ReplicaId


class DiscoveryParts:
    """Discovery as the gateway uses it. make: the watch of a replica; introduce: see `Roster`; drain: tells who
    gets no new requests; forget: ends the metrics of one."""

    def __init__(
        self,
        settings: Settings,
        background: Background,
        make: Callable[[ReplicaConfig], Watching],
        introduce: Callable[[ReplicaConfig], None],
        drain: Callable[[ReplicaId, bool], None],
        forget: Callable[[ReplicaId], None],
    ) -> None:
        self._settings = settings
        self._forget = forget
        self._roster = Roster(make, background, introduce, drain, self._gone)
        self._discovery = Discovery(make_sources(settings, Random()), Random(), self._roster.want)
        self.collector = DiscoveryCollector(self._discovery)
        self.configure = self._discovery.configure
        self.waiting = self._discovery.waiting
        self.troubles = self._discovery.troubles
        self._task = background.keep("discovery", self._discovery.run)

    def close(self) -> None:
        """Look for nobody and watch nobody."""
        self._task.cancel()
        self._roster.close()

    def _gone(self, who: Identity) -> None:
        """Its metrics end too, once they have been scraped for the last time, unless its address is in use again."""

        def forget() -> None:
            if not self._roster.watches(who.url):
                self._forget(replica_id(who.url))

        asyncio.get_running_loop().call_later(self._settings.forget, forget)
