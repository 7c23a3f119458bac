"""Asks LMCache's servers for what the settings must agree with, and says what does not."""

import asyncio
import logging
from collections.abc import Mapping

import httpx

from gateway.config.l2 import L2, SharedModel
from routing.fleet import Fleet

logger = logging.getLogger(__name__)

_TIMEOUT = 2.0


class Servers:
    """Those beside the replicas of models whose `writer` is `lmcache-server`."""

    def __init__(self, settings: L2, fleet: Fleet, client: httpx.AsyncClient) -> None:
        self.faults: list[str] = []
        self._settings = settings
        self._fleet = fleet
        self._client = client

    async def run(self) -> None:
        """Ask now and then until cancelled."""
        while True:
            await asyncio.sleep(self._settings.compare_interval)
            await self.compare()

    async def compare(self) -> None:
        """Ask every server once. One that does not answer says nothing."""
        faults = []
        for name, model in self._settings.models.items():
            if model.writer != "lmcache-server":
                continue
            for replica in sorted({engine.id.replica for engine in self._fleet.serving(name)}):
                url = self._settings.server(replica)
                differing = await self._differing(url, model) if url is not None else []
                faults += [
                    f"shared storage of {name}: LMCache's server at {url} says that {fault}" for fault in differing
                ]
        for fault in set(faults).difference(self.faults):
            logger.error("%s", fault)
        self.faults = faults

    async def _differing(self, url: str, model: SharedModel) -> list[str]:
        try:
            answer = await self._client.get(f"{url}/status", timeout=_TIMEOUT)
            status = answer.json() if answer.is_success else {}
        except (httpx.HTTPError, ValueError) as exc:
            logger.debug("LMCache's server at %s: %s", url, exc)
            return []
        return _compared(status, model) if isinstance(status, Mapping) else []


def _compared(status: Mapping[str, object], model: SharedModel) -> list[str]:
    """LMCache 0.5.6's `/status` against the settings."""
    ours = {"chunk": model.chunk, "hash": model.hash or "blake3"}
    theirs = {"chunk": status.get("chunk_size"), "hash": status.get("hash_algorithm")}
    return [
        f"{name} is {theirs[name]}, not {value}"
        for name, value in ours.items()
        if theirs[name] is not None and theirs[name] != value
    ]
