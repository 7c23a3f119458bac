"""Asks LMCache's server beside a replica to fetch a prompt from shared storage while its request still waits there."""

import logging
from collections.abc import Callable, Sequence

import httpx

from gateway.background import Background
from gateway.config.l2 import L2
from gateway.l2.metrics import L2Metrics
from routing.decision import Decision
from routing.fleet import Fleet

logger = logging.getLogger(__name__)

_TIMEOUT = 2.0


class Prefetcher:
    """Tells, and does not wait: without the prefetch the engine loads by itself.

    server: a replica's id -> the URL of LMCache's server beside it, None where there is none.
    """

    def __init__(
        self,
        settings: L2,
        server: Callable[[str], str | None],
        fleet: Fleet,
        client: httpx.AsyncClient,
        background: Background,
        metrics: L2Metrics,
    ) -> None:
        self._settings = settings
        self._server = server
        self._fleet = fleet
        self._client = client
        self._background = background
        self._metrics = metrics

    def consider(self, model: str, decision: Decision, tokens: Sequence[int], salt: str | None) -> None:
        """Ask for it if the load fits into the time that the request waits for others there.

        tokens: the prompt's, up to the end of what is stored.
        """
        prediction, engine = decision.prediction, self._fleet.get(decision.engine)
        waits = prediction.queue + prediction.decode
        url = self._server(decision.engine.replica)
        if not decision.l2_tokens or waits < prediction.shared or url is None or engine is None:
            return
        settings = self._settings.models[model]
        body = {
            "model_name": settings.model or engine.replica.base.root,
            "world_size": settings.world,
            "token_ids": list(tokens),
            "cache_salt": salt or "",
        }
        self._background.once("prefetch", self._ask(f"{url}/cache/prefetches", body))

    async def _ask(self, url: str, body: dict[str, object]) -> None:
        try:
            answer = await self._client.post(url, json=body, timeout=_TIMEOUT)
            outcome = "accepted" if answer.is_success else "refused"
        except httpx.HTTPError as exc:
            logger.debug("prefetch at %s: %s", url, exc)
            outcome = "failed"
        self._metrics.prefetches.labels(outcome).inc()
