"""How sure a figure is: bootstrap intervals over stretches of requests, paired between routers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from loadtest.compare.outcome import Asked, Outcome

STRETCH = 20
"""requests in a row that are drawn together, because neighbours wait in the same queues"""
DRAWS = 300

Figure = Callable[[Sequence[Asked]], float]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and where 95 % of its resampled values lie."""

    value: float
    low: float
    high: float


class Resampled:
    """Outcomes of several routers on the same slices, drawn again and again: the same requests for every router."""

    def __init__(self, outcomes: Mapping[str, Sequence[Outcome]], seed: int = 0) -> None:
        """outcomes: by router, one for each seed; a router may miss some of the requests."""
        self._stretches: dict[str, dict[tuple[int, int], list[Asked]]] = {}
        for router, runs in outcomes.items():
            mine: dict[tuple[int, int], list[Asked]] = {}
            for run in runs:
                for one in run.asked:
                    mine.setdefault((run.seed, one.number // STRETCH), []).append(one)
            self._stretches[router] = mine
        names = sorted({name for mine in self._stretches.values() for name in mine})
        random = Random(seed)
        self._draws = [random.choices(names, k=len(names)) for _ in range(DRAWS if names else 0)]

    def interval(self, router: str, figure: Figure) -> Interval:
        """One router's figure."""
        return _interval(figure(self._all(router)), self._values(router, figure))

    def ratio(self, router: str, other: str, figure: Figure) -> Interval:
        """One router's figure over another's, drawn together."""
        mine, theirs = self._values(router, figure), self._values(other, figure)
        value = _over(figure(self._all(router)), figure(self._all(other)))
        return _interval(value, [_over(a, b) for a, b in zip(mine, theirs, strict=True)])

    def _all(self, router: str) -> list[Asked]:
        return [one for stretch in self._stretches[router].values() for one in stretch]

    def _values(self, router: str, figure: Figure) -> list[float]:
        mine = self._stretches[router]
        return [figure([one for name in draw for one in mine.get(name, ())]) for draw in self._draws]


def _interval(value: float, drawn: Sequence[float]) -> Interval:
    ordered = sorted(drawn) or [value]
    cut = int(0.025 * len(ordered))
    return Interval(value, ordered[cut], ordered[-1 - cut])


def _over(one: float, other: float) -> float:
    return one / other if other else float("inf") if one else 1.0
