"""Each engine in turn."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from routing.decision import Candidate
from routing.policies.policy import Choice, PrefixSource


class RoundRobin:
    """Each engine in turn, whatever it holds and however busy it is."""

    name: ClassVar[str] = "round-robin"
    source: ClassVar[PrefixSource] = PrefixSource.NONE

    def __init__(self, random: Random) -> None:
        self._turn = 0

    def choose(self, candidates: Sequence[Candidate], session: str | None = None) -> Choice:
        """The next in the order of `candidates`."""
        chosen = candidates[self._turn % len(candidates)]
        self._turn += 1
        return Choice(chosen, "next in turn")
