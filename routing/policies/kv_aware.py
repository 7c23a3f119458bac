"""The engine whose first token is predicted soonest."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from routing.decision import Candidate
from routing.policies.least_loaded import work
from routing.policies.policy import Choice, PrefixSource
from routing.policies.session import affinity

NOISE = 0.002
"""Predictions that differ by less than this many seconds are equal: the model is not better than that."""


class KVAware:
    """The lowest predicted cost; among near-equals the longest held, the least loaded, the session's own, any."""

    name: ClassVar[str] = "kv-aware"
    source: ClassVar[PrefixSource] = PrefixSource.EVENTS

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, candidates: Sequence[Candidate], session: str | None = None) -> Choice:
        """One whose cost is within `NOISE` of the lowest."""
        costs = [candidate.prediction.cost for candidate in candidates]
        enough = min(costs) + NOISE
        near = [candidate for candidate, cost in zip(candidates, costs, strict=True) if cost <= enough]
        longest = max(candidate.l1 for candidate in near)
        near = [candidate for candidate in near if candidate.l1 == longest]
        least = min(map(work, near))
        near = [candidate for candidate in near if work(candidate) == least]
        if session is None:
            chosen = self._random.choice(near)
        else:
            chosen = max(near, key=lambda candidate: affinity(session, candidate.engine))
        held = f"{chosen.l1} of {chosen.prompt} tokens held" if chosen.prompt else "prompt not matched"
        if chosen.l2:
            held += f", {chosen.l2} more in shared storage"
        return Choice(chosen, f"first token soonest ({chosen.prediction.ttft * 1e3:.1f} ms), {held}")
