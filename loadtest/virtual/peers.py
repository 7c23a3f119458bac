"""How other routers choose, written anew from what they publish: for comparison in virtual time only.

None of this is their code, and each sees of caches what kv-aware sees, so what differs is the rule of choice alone.
Their own programs are compared through sockets.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

from routing.decision import Candidate
from routing.policies import Choice, Policy, PrefixSource


def _lowest(candidates: Sequence[Candidate], costs: Sequence[float], random: Random) -> Choice:
    least = min(costs)
    near = [candidate for candidate, cost in zip(candidates, costs, strict=True) if cost == least]
    return Choice(random.choice(near), f"lowest cost ({least:.4g})")


class LlmD:
    """llm-d's scorers with weights 3 (share of the prompt held), 2 (queue) and 2 (KV cache in use).

    Queues and KV caches as last reported; a queue counts by its place between the shortest and the longest.
    """

    name: ClassVar[str] = "llm-d-3-2-2"
    source: ClassVar[PrefixSource] = PrefixSource.EVENTS

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, candidates: Sequence[Candidate], session: str | None = None) -> Choice:
        """The highest weighted sum; at random among equals."""
        queues = [candidate.load.report.waiting for candidate in candidates]
        shortest, span = min(queues), max(queues) - min(queues)
        costs = [
            2 * ((queue - shortest) / span if span else 0.0)
            + 2 * candidate.load.report.kv_usage
            - 3 * candidate.l0 / max(1, candidate.prompt)
            for candidate, queue in zip(candidates, queues, strict=True)
        ]
        return _lowest(candidates, costs, self._random)


class Dynamo:
    """Dynamo's cost with its default weight: tokens to prefill there, this prompt's too, and of context there."""

    name: ClassVar[str] = "dynamo-cost"
    source: ClassVar[PrefixSource] = PrefixSource.EVENTS

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, candidates: Sequence[Candidate], session: str | None = None) -> Choice:
        """The lowest sum; at random among equals."""
        costs = [
            candidate.load.pending_tokens + candidate.prompt - candidate.l0 + candidate.load.context_tokens
            for candidate in candidates
        ]
        return _lowest(candidates, costs, self._random)


class LMetric:
    """LMetric (arXiv 2603.15202): tokens to prefill there, this prompt's too, times requests there, this one too."""

    name: ClassVar[str] = "lmetric"
    source: ClassVar[PrefixSource] = PrefixSource.EVENTS

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, candidates: Sequence[Candidate], session: str | None = None) -> Choice:
        """The lowest product; at random among equals."""
        costs = [
            (candidate.load.pending_tokens + candidate.prompt - candidate.l0) * (candidate.load.in_flight + 1)
            for candidate in candidates
        ]
        return _lowest(candidates, costs, self._random)


PEERS: Mapping[str, type[Policy]] = {peer.name: peer for peer in (LlmD, Dynamo, LMetric)}
"""by the name that `kvgate compare --virtual --policies` takes"""
