"""What runs beside the requests: a fault of ours in one part ends neither the gateway nor, for long, that part."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

logger = logging.getLogger(__name__)

_REST = 1.0
"""seconds until a part that failed is begun again"""
_AGAIN = 0.1
"""seconds until what goes on is cancelled again"""


class Background(Collector):
    """Tasks, until left: then they are waited for. What they can foresee they handle themselves.

    rest: seconds until a part that failed is begun again.
    """

    def __init__(self, rest: float = _REST) -> None:
        self._group = asyncio.TaskGroup()
        self._rest = rest
        self._failures: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._group.__aexit__(kind, error, trace)

    def once(self, name: str, step: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run it to its end; an exception is logged and counted."""
        task = self._group.create_task(self._guarded(name, step))
        # A task that is cancelled before it begins would leave the step as it is.
        task.add_done_callback(lambda _: step.close())
        return task

    def keep(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """Run it until it ends or is cancelled; after an exception it is begun again."""
        return self._group.create_task(self._kept(name, run))

    def collect(self) -> Iterable[Metric]:
        """The failures so far, by name."""
        failures = CounterMetricFamily(
            "kvgate_background_failures", "Faults of parts that run beside the requests", None, ("part",)
        )
        for name, count in self._failures.items():
            failures.add_metric((name,), count)
        yield failures

    async def _guarded(self, name: str, step: Coroutine[Any, Any, None]) -> None:
        try:
            await step
        except Exception:
            self._failed(name, "failed")

    async def _kept(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await run()
            except Exception:
                self._failed(name, "failed and is begun again")
                await asyncio.sleep(self._rest)
            else:
                return

    def _failed(self, name: str, what: str) -> None:
        self._failures[name] += 1
        logger.exception("%s %s", name, what)


async def ended(tasks: Collection["asyncio.Task[None]"]) -> None:
    """Cancel them until they have ended.

    Once is not enough: Python 3.11's `asyncio.wait_for`, which redis-py sends with, loses a cancellation that comes
    just when what it waits for is done.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_AGAIN)
