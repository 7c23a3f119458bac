"""All sources together: who is there, by anybody's word, is watched."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

from gateway.config import ReplicaConfig
from gateway.fleet.discovery.source import Backoff, Source

logger = logging.getLogger(__name__)


class Discovery:
    """Runs the sources and has the union of what they and the configuration name watched.

    want: takes everybody who is there, each time that something changed.
    """

    def __init__(
        self, sources: Sequence[Source], random: Random, want: Callable[[Sequence[ReplicaConfig]], None]
    ) -> None:
        self._sources = sources
        self._backoff = Backoff(first=1.0, most=30.0, random=random)
        self._want = want
        self._configured: Sequence[ReplicaConfig] = ()
        self._told: dict[str, tuple[ReplicaConfig, ...]] = {}

    @property
    def sources(self) -> Sequence[Source]:
        """Where replicas are looked for, besides the configuration."""
        return self._sources

    @property
    def told(self) -> Mapping[str, Sequence[ReplicaConfig]]:
        """The last word of each source that has spoken, by its name."""
        return self._told

    def configure(self, replicas: Sequence[ReplicaConfig]) -> None:
        """The replicas that the configuration lists from now on."""
        self._configured = replicas
        self._hand_on()

    def waiting(self) -> list[str]:
        """The sources that have not spoken yet, with what keeps them."""
        return [
            f"{source.name} has not answered yet" + (f": {source.reports.trouble}" if source.reports.trouble else "")
            for source in self._sources
            if source.name not in self._told
        ]

    def troubles(self) -> list[str]:
        """The sources that have spoken and can't be asked now."""
        return [
            f"{source.name} can't be asked, so replicas that come or go are not seen: {source.reports.trouble}"
            for source in self._sources
            if source.name in self._told and source.reports.trouble
        ]

    async def run(self) -> None:
        """Listen to all sources until cancelled."""
        async with asyncio.TaskGroup() as group:
            for source in self._sources:
                group.create_task(self._listen(source))

    async def _listen(self, source: Source) -> None:
        failures = 0

        def tell(replicas: Iterable[ReplicaConfig]) -> None:
            nonlocal failures
            failures = 0
            source.reports.troubles.pop(source.name, None)
            told = tuple(replicas)
            if self._told.get(source.name) != told:
                self._told[source.name] = told
                self._hand_on()

        while True:
            try:
                await source.run(tell)
            except Exception as exc:
                # One source that does not work must not end the others, nor the requests.
                failures += 1
                source.reports.failed(source.name, "broken", str(exc) or type(exc).__name__)
                logger.exception("discovery: %s stopped and is started again", source.name)
            await asyncio.sleep(self._backoff.pause(failures))

    def _hand_on(self) -> None:
        # The configuration last: what somebody wrote there by hand counts more than what is found.
        self._want([*(replica for told in self._told.values() for replica in told), *self._configured])
