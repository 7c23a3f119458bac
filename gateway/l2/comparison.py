"""Compares settings with stored files now and then, and says what it finds."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from gateway.config.l2 import SharedModel
from gateway.l2.metrics import L2Metrics
from gateway.l2.mismatch import differing, newest_files
from gateway.l2.workers import Workers

logger = logging.getLogger(__name__)

_PROMPTS = 16
_TOKENS = 1024


class Comparison:
    """Of one model's settings with what lies in the folder."""

    def __init__(
        self, model: str, settings: SharedModel, path: Path, root: Callable[[], str], metrics: L2Metrics
    ) -> None:
        """root: the path or id that the model's replicas name; empty while there are none."""
        self.fault = ""
        self._model = model
        self._settings = settings
        self._path = path
        self._root = root
        self._mismatch = metrics.mismatch.labels(model)
        self._prompts: deque[Sequence[int]] = deque(maxlen=_PROMPTS)

    def served(self, tokens: Sequence[int]) -> None:
        """A prompt was sent to an engine, which will store it if it has not been."""
        self._prompts.append(tokens[:_TOKENS])

    async def run(self, workers: Workers, interval: float) -> None:
        """Compare every `interval` seconds until cancelled."""
        while True:
            await asyncio.sleep(interval)
            await self.compare(workers)

    async def compare(self, workers: Workers) -> None:
        """Compare once. Takes as long as the folder takes to be listed."""
        root = self._root()
        if not root or workers.outstanding:
            return
        prompts = list(self._prompts)
        try:
            fault = await workers.submit(partial(self._differing, root, prompts))
        except OSError as exc:
            logger.debug("shared storage: %s", exc)
            return
        if fault != self.fault:
            self.fault = fault
            self._mismatch.set(bool(fault))
            if fault:
                logger.error("shared storage of %s: %s", self._model, fault)
            else:
                logger.info("shared storage of %s: files fit the settings now", self._model)

    def _differing(self, root: str, prompts: Sequence[Sequence[int]]) -> str:
        return differing(self._settings, root, newest_files(self._path), prompts)
