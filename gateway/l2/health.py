"""Whether shared storage answers, can be read, and keeps what it promises."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from gateway.config.l2 import L2
from gateway.l2.breaker import Breaker, HintRecord, Off, Switch
from gateway.l2.metrics import L2Metrics
from gateway.l2.store import Store
from gateway.l2.workers import Saturated, Workers

logger = logging.getLogger(__name__)
T = TypeVar("T")

_SAID = {
    Off.SLOW: "it fails or does not answer in time",
    Off.UNREADABLE: "files are there, but can't be read",
    Off.FALSE_HINTS: "too much of what it promised did not come",
}


class Health:
    """Turns shared storage off for choosing, and on again. Owned by the event loop."""

    def __init__(
        self,
        settings: L2,
        stores: Sequence[Store],
        workers: Workers,
        readers: Workers,
        metrics: L2Metrics,
        now: Callable[[], float],
    ) -> None:
        """workers, readers: others than the look-ups', and each other's: one that hangs says nothing of the rest."""
        self._settings = settings
        self._stores = stores
        self._workers = workers
        self._readers = readers
        self._metrics = metrics
        self._now = now
        self._switch = Switch()
        self._breaker = Breaker(settings.failures)
        self._hints = HintRecord(settings.false_hints)
        self._disbelieved_until = 0.0

    @property
    def believed(self) -> bool:
        """Whether it may be asked, and counts."""
        return bool(self._switch)

    def faults(self) -> list[str]:
        """Why it does not count, in words; empty while it does."""
        return [f"shared storage does not count: {_SAID[reason]}" for reason in self._switch.reasons]

    def worked(self) -> None:
        """A look-up was answered in time."""
        if not self._breaker.open:
            self._breaker.worked()

    def failed(self) -> None:
        """A look-up failed or was late."""
        self._breaker.failed()
        self._set(Off.SLOW, self._breaker.open)

    def hint(self, model: str, false: bool) -> None:
        """An engine was promised a load. false: less came than that."""
        self._metrics.hints.labels(model, "false" if false else "delivered").inc()
        self._hints.add(false)
        self._metrics.false_ratio.set(self._hints.false_ratio)
        if false:
            for store in self._stores:
                store.forget()
        if self._hints.bad:
            self._disbelieved_until = self._now() + self._settings.disbelief
            self._hints.clear()
            self._set(Off.FALSE_HINTS, True)

    async def run(self) -> None:
        """Look after it until cancelled. The only one to close an open breaker, so that no request is the test."""
        while True:
            await asyncio.sleep(self._settings.check_interval)
            await self.check()

    async def check(self) -> None:
        """One look: does it answer as fast as a request needs it, and can be read what is there."""
        if self._now() >= self._disbelieved_until:
            self._set(Off.FALSE_HINTS, False)
        for store in self._stores:
            full = await _within(self._workers, self._settings.deadline, store.check)
            if full is None:
                self.failed()
            else:
                self._metrics.fullness.set(full)
                self._breaker.worked()
                self._set(Off.SLOW, False)
        if self._settings.read_check:
            self._set(Off.UNREADABLE, not await self._readable())

    async def _readable(self) -> bool:
        if self._readers.outstanding:
            return False
        deadline = self._settings.read_deadline
        return all([await _within(self._readers, deadline, _reading(store)) for store in self._stores])

    def _set(self, reason: Off, off: bool) -> None:
        if not self._switch.set(reason, off):
            return
        self._metrics.off.labels(reason.value).set(off)
        if off:
            logger.error("shared storage does not count from now on: %s", _SAID[reason])
        else:
            logger.warning("shared storage counts again, no longer: %s", _SAID[reason])


async def _within(workers: Workers, seconds: float, call: Callable[[], T]) -> T | None:
    """What the call gives, None if it fails or takes longer."""
    try:
        asking = workers.submit(call)
    except Saturated:
        return None
    await asyncio.wait({asking}, timeout=seconds)
    if not asking.done():
        asking.cancel()
        return None
    error = asking.exception()
    if error is None:
        return asking.result()
    if not isinstance(error, OSError):
        raise error
    logger.debug("shared storage: %s", error)
    return None


def _reading(store: Store) -> Callable[[], bool]:
    def read() -> bool:
        store.read()
        return True

    return read
