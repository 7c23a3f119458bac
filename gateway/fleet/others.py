"""What other gateways in front of the same fleet have told: what they have under way, and what they sent where."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from routing.fleet import Fleet
from routing.fresh import FreshRoutes
from routing.history import RouteHistory
from routing.load import NOTHING_UNDER_WAY, UnderWay
from routing.types import BlockHash, EngineId

PATIENCE = 3.0
"""seconds after which what a silent gateway has told counts no more"""


class Sent(NamedTuple):
    """A prompt that another gateway has sent."""

    engine: EngineId
    blocks: Sequence[BlockHash]
    """of it, those that the engine was not known to hold"""
    seconds: float
    """for which these are likely held there if no event tells"""


class Others:
    """Counts their requests as loads and what they sent as likely held, so that gateways do not decide past each other.

    now: seconds of a monotonic clock.
    """

    def __init__(self, fleet: Fleet, fresh: FreshRoutes, history: RouteHistory, now: Callable[[], float]) -> None:
        self._fleet = fleet
        self._fresh = fresh
        self._history = history
        self._now = now
        self._told: dict[str, tuple[float, Mapping[EngineId, UnderWay]]] = {}

    def __len__(self) -> int:
        """Gateways that have told something lately."""
        return len(self._told)

    def hear(self, gateway: str, under_way: Mapping[EngineId, UnderWay], sent: Sequence[Sent]) -> None:
        """A gateway tells all that it has under way, which counts from the next `settle` on, and what it has sent."""
        now = self._now()
        self._told[gateway] = now, under_way
        for engine, blocks, seconds in sent:
            if self._fleet.get(engine) is not None:
                self._fresh.hear(engine, blocks, now + seconds, now)
                self._history.record(engine, blocks, now)

    def settle(self) -> None:
        """Enter all that was heard into the engines' loads, and forget who is silent."""
        latest = self._now() - PATIENCE
        self._told = {gateway: told for gateway, told in self._told.items() if told[0] > latest}
        sums: defaultdict[EngineId, list[UnderWay]] = defaultdict(list)
        for _, under_way in self._told.values():
            for id, load in under_way.items():
                sums[id].append(load)
        for engine in self._fleet:
            engine.load.hear(
                UnderWay(*map(sum, zip(*sums[engine.id], strict=True))) if engine.id in sums else NOTHING_UNDER_WAY
            )
