"""Finds out whether prompts read here have the tokens that the replicas give them, and acts where they have not."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from gateway.metrics import Metrics
from gateway.prompt.library import Library
from gateway.prompt.parity import Outcome, Parity, ParityCheck
from routing.fleet import Fleet, Replica
from routing.types import ReplicaId

logger = logging.getLogger(__name__)

_LOOK = 0.5
"""Seconds between two looks for a replica that is due."""


class Canary:
    """Checks each replica when it has joined and its model's reader is loaded, and again every `interval` seconds.

    A model of which a replica has other tokens is read by the replicas from then on, until they agree again.

    now: seconds of a monotonic clock.
    """

    def __init__(
        self,
        fleet: Fleet,
        library: Library,
        check: ParityCheck,
        interval: float,
        metrics: Metrics,
        now: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._library = library
        self._check = check
        self._interval = interval
        self._metrics = metrics
        self._now = now
        self._checked: dict[tuple[ReplicaId, str], float] = {}
        self._different: dict[str, set[ReplicaId]] = {}

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            members = {engine.replica.id: engine.replica for engine in self._fleet}
            self._checked = {key: at for key, at in self._checked.items() if key[0] in members}
            for different in self._different.values():
                different &= members.keys()
            for replica in members.values():
                await self._check_if_due(replica)
            await asyncio.sleep(_LOOK)

    async def _check_if_due(self, replica: Replica) -> None:
        reader = self._library.untested_reader(replica)
        key = (replica.id, replica.base.root)
        if reader is None or self._now() < self._checked.get(key, float("-inf")) + self._interval:
            return
        self._checked[key] = self._now()
        self._judge(replica, await self._check.all(replica, reader))

    def _judge(self, replica: Replica, results: Sequence[Parity]) -> None:
        for result in results:
            for outcome in Outcome:
                gauge = self._metrics.parity.labels(replica.id, result.shape, outcome.value)
                gauge.set(outcome is result.outcome)
        wrong = [describe(result) for result in results if result.outcome is Outcome.DIFFERENT]
        model, different = replica.base.id, self._different.setdefault(replica.base.id, set())
        if wrong:
            different.add(replica.id)
            self._library.distrust(model, f"replica {replica.id}: {'; '.join(wrong)}")
            return
        different.discard(replica.id)
        different &= {engine.replica.id for engine in self._fleet}
        if any(result.outcome is Outcome.EQUAL for result in results) and not different:
            self._library.trust(model)


def describe(result: Parity) -> str:
    """Where the tokens part, in words: ids, never text."""
    if result.position is None:
        return f"{result.shape}: one reads it, the other refuses it"
    return f"{result.shape}: token {result.position} is {result.ours} here and {result.theirs} there"
