"""The longest prefix by the gateway's own history, within a bound on load."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from routing.decision import Candidate
from routing.policies.least_loaded import bound, work
from routing.policies.policy import Choice, PrefixSource


class PrefixAware:
    """Follows the longest prefix unless its engine has far more to do than the others."""

    name: ClassVar[str] = "prefix-aware"
    source: ClassVar[PrefixSource] = PrefixSource.HISTORY

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, candidates: Sequence[Candidate], session: str | None = None) -> Choice:
        """The longest prefix among those within the bound; among equals the least loaded, then at random."""
        most = bound(candidates)
        within = [candidate for candidate in candidates if work(candidate) <= most]
        longest = max(candidate.l0 for candidate in within)
        holders = [candidate for candidate in within if candidate.l0 == longest]
        least = min(map(work, holders))
        chosen = self._random.choice([candidate for candidate in holders if work(candidate) == least])
        if longest:
            return Choice(chosen, f"{longest} tokens were sent there before")
        return Choice(chosen, "prefix not seen before, least loaded")
