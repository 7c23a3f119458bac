"""Has a replica that joins with an empty cache compute what most prompts begin with."""

import asyncio
import logging
from collections.abc import Callable, Sequence

import httpx

from gateway.background import Background
from gateway.config.warm_up import WarmUp as Settings
from gateway.metrics import Metrics
from routing.decision import Decision
from routing.fleet import Engine, Fleet
from routing.hottest import Beginning, Hottest
from routing.index import Holding
from routing.types import EngineId, Tier

logger = logging.getLogger(__name__)

_REMEMBERED = 4096
_LEAST_TOKENS = 128
"""A shorter beginning is computed as fast as it is asked for."""
_LOOK = 1.0
"""seconds between two looks at who is new; by then a replica that was known before has told what it holds"""
_BUSY = 0.1
"""seconds until a replica that has something to do is looked at again"""
_TIMEOUT = 60.0
"""seconds for one beginning"""


class WarmUp:
    """Does nothing where the settings want no beginnings. now: seconds of a monotonic clock."""

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        holding: Holding,
        client: httpx.AsyncClient,
        background: Background,
        metrics: Metrics,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._holding = holding
        self._client = client
        self._background = background
        self._metrics = metrics
        self._now = now
        self._hottest = Hottest(_REMEMBERED, settings.half_life)
        self._known: set[EngineId] = set()

    def note(self, model: str | None, decision: Decision, tokens: Sequence[int], salt: str | None) -> None:
        """A request of one prompt goes where this decision says."""
        if not self._settings.beginnings:
            return
        engine = self._fleet.get(decision.engine)
        count = decision.reusable_tokens
        if model is not None and engine is not None and count >= _LEAST_TOKENS:
            end = decision.credited[0][count // engine.namespace.block_size - 1]
            self._hottest.note(end, model, salt, tokens, count, self._now())

    async def run(self) -> None:
        """Look who is new, until cancelled."""
        while self._settings.beginnings:
            await asyncio.sleep(_LOOK)
            engines = {engine.id: engine for engine in self._fleet}
            for id in engines.keys() - self._known:
                if not self._holding.held(id, Tier.GPU):
                    self._background.once("warm-up", self._warm(engines[id]))
            self._known = set(engines)

    async def _warm(self, engine: Engine) -> None:
        names = {card.id for card in engine.replica.cards}
        best = self._hottest.best(self._settings.beginnings, self._now())
        wanted = [beginning for beginning in best if beginning.model in names]
        end = self._now() + self._settings.patience
        for done, beginning in enumerate(wanted):
            while engine.load.in_flight or engine.load.others_waiting:
                if self._now() > end or self._fleet.get(engine.id) is None:
                    self._count(engine, "given_up", len(wanted) - done)
                    return
                await asyncio.sleep(_BUSY)
            self._count(engine, await self._compute(engine, beginning), 1)
        if wanted:
            logger.info("replica %s: %d beginnings computed for it to know them", engine.id.replica, len(wanted))

    async def _compute(self, engine: Engine, beginning: Beginning) -> str:
        body = {"model": beginning.model, "prompt": list(beginning.tokens), "max_tokens": 1}
        if beginning.salt:
            body["cache_salt"] = beginning.salt
        headers = {"x-data-parallel-rank": str(engine.id.rank)} if engine.replica.ranks > 1 else {}
        url = f"{engine.replica.url}/v1/completions"
        try:
            answer = await self._client.post(url, json=body, headers=headers, timeout=_TIMEOUT)
        except httpx.HTTPError as exc:
            logger.warning("replica %s: warm-up: %s", engine.id.replica, exc)
            return "failed"
        return "computed" if answer.is_success else "refused"

    def _count(self, engine: Engine, outcome: str, number: int) -> None:
        self._metrics.warm_up.labels(engine.id.replica, outcome).inc(number)
