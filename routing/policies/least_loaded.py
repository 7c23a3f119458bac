"""The engine with the least to do."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from routing.decision import Candidate
from routing.policies.policy import Choice, PrefixSource


def work(candidate: Candidate) -> float:
    """Requests that are in flight there, ours and others', for each unit of its weight."""
    load = candidate.load
    return (load.in_flight + load.others_running + load.others_waiting) / load.weight


_LOAD_FACTOR = 1.25
"""An engine may have this many times the mean load and still be followed for what it holds or is used to ..."""
_LOAD_SLACK = 4
"""... or this many requests more than the mean, where the fleet is nearly idle."""


def bound(candidates: Sequence[Candidate]) -> float:
    """How many requests an engine may have before others are to be preferred whatever speaks for it."""
    mean = sum(map(work, candidates)) / len(candidates)
    return max(mean * _LOAD_FACTOR, mean + _LOAD_SLACK)


class LeastLoaded:
    """The fewest requests in flight; at random among equals."""

    name: ClassVar[str] = "least-loaded"
    source: ClassVar[PrefixSource] = PrefixSource.NONE

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, candidates: Sequence[Candidate], session: str | None = None) -> Choice:
        """One of those with the fewest requests."""
        least = min(map(work, candidates))
        idle = [candidate for candidate in candidates if work(candidate) == least]
        return Choice(self._random.choice(idle), f"{least:g} in flight, the fewest")
