"""How late this machine is: what its own scheduling adds to everything that is measured on it."""

import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator

INTERVAL_SECONDS = 0.01


class Lag:
    """How much later than asked the event loop woke up, sampled every 10 ms."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def percentile(self, percent: int) -> float:
        """percent: 1-99. Returns seconds; 0 if there are too few samples."""
        if len(self.seconds) < 2:
            return 0.0
        return statistics.quantiles(self.seconds, n=100, method="inclusive")[percent - 1]


@contextlib.asynccontextmanager
async def sampled() -> AsyncIterator[Lag]:
    """Sample within the context."""
    lag = Lag()
    sampling = asyncio.create_task(_sample(lag))
    try:
        yield lag
    finally:
        sampling.cancel()


async def _sample(lag: Lag) -> None:
    loop = asyncio.get_running_loop()
    while True:
        asked = loop.time() + INTERVAL_SECONDS
        await asyncio.sleep(INTERVAL_SECONDS)
        lag.seconds.append(loop.time() - asked)
