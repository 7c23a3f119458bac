"""The same session to the same engine, whatever it holds."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

import xxhash

from routing.decision import Candidate
from routing.policies.least_loaded import LeastLoaded, bound, work
from routing.policies.policy import Choice, PrefixSource
from routing.types import EngineId


def affinity(session: str, engine: EngineId) -> int:
    """How much a session belongs to an engine, by their names alone (rendezvous hashing).

    So an engine that comes or goes moves only the sessions that are or were its own, and all gateways agree.
    """
    return xxhash.xxh3_64_intdigest(f"{engine.replica}\0{engine.rank}\0{session}".encode("utf-8", "surrogatepass"))


class Session:
    """Each session has an order of engines of its own; the first of them within the bound on load takes it."""

    name: ClassVar[str] = "session"
    source: ClassVar[PrefixSource] = PrefixSource.NONE

    def __init__(self, random: Random) -> None:
        self._least_loaded = LeastLoaded(random)

    def choose(self, candidates: Sequence[Candidate], session: str | None = None) -> Choice:
        """The session's engine; where it has far more to do than others, its next. Without one, the least loaded."""
        if session is None:
            chosen, reason = self._least_loaded.choose(candidates)
            return Choice(chosen, f"no session named, {reason}")
        most = bound(candidates)
        ranked = sorted(candidates, key=lambda candidate: affinity(session, candidate.engine), reverse=True)
        place = next(place for place, candidate in enumerate(ranked) if work(candidate) <= most)
        if place:
            return Choice(ranked[place], f"the session's first {place} have far more to do than the others")
        return Choice(ranked[0], "the session's place")
