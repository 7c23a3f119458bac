"""Clears what engines have left behind, a little at a time."""

import asyncio
import logging
from collections.abc import Collection

from gateway.redis.follower import Spawn
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import RedisIndexError

logger = logging.getLogger(__name__)

_PAUSE = 0.005
"""seconds between two steps, each of which keeps Redis busy for about a millisecond"""


class Sweeper:
    """One gateway sweeps; if two do, the result is the same.

    forget: seconds after which an engine that nobody follows is forgotten.
    """

    def __init__(self, index: RedisIndex, forget: float) -> None:
        self._index = index
        self._forget = forget
        self._sweeping = False

    def keep_clean(self, models: Collection[str], spawn: Spawn) -> None:
        """Begin a pass if none is under way. models: that are served now; those served before are looked after too."""
        if not self._sweeping:
            self._sweeping = True
            spawn(self._pass(models))

    async def _pass(self, served: Collection[str]) -> None:
        try:
            for model in sorted(await self._index.models(served)):
                await self._index.forget_orphans(model, self._forget)
                retired = await self._index.retired(model)
                cursor = "0"
                while retired:
                    cursor = await self._index.sweep(model, retired, cursor)
                    if cursor == "0":
                        break
                    await asyncio.sleep(_PAUSE)
                if model not in served:
                    await self._index.forget_model(model)
        except RedisIndexError as exc:
            logger.debug("sweeping the index: %s", exc)
        finally:
            self._sweeping = False
