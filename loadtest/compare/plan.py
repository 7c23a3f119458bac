"""What is compared: which part of a trace at which pace, on which fleet."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from loadtest.bounds import infinite, pooled_belady, pooled_lru
from loadtest.replica.engine import DEFAULT_TOKEN_BUDGET
from loadtest.replica.timing import Profile
from loadtest.traces.trace import Trace, TraceRequest

MAX_MODEL_LENGTH = 131_072
"""tokens of prompt and answer together, as simulated replicas accept them"""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Simulated replicas, equal but for the slow ones."""

    replicas: int
    profile: Profile
    block_size: int = 16
    """tokens of an engine's block"""
    slow: int = 0
    """how many of them, the last ones, take twice as long for everything"""

    @property
    def blocks(self) -> int:
        """Usable ones of each replica."""
        return self.profile.l0_tokens // self.block_size

    def capacity(self, trace: Trace) -> float:
        """Requests a second that keep every engine busy if nothing is ever reused: load 1.

        An answer's tokens ride along in steps that prefill others, so they count without the steps' fixed part.
        """
        busy = sum(self._seconds(request) for request in trace.requests)
        return (self.replicas - self.slow / 2) * len(trace.requests) / busy

    def _seconds(self, request: TraceRequest) -> float:
        profile, prompt, output = self.profile, request.prompt_tokens, request.output_tokens
        prefill = profile.a * ceil(prompt / DEFAULT_TOKEN_BUDGET) + profile.chunk_ms(prompt, 0)
        return (prefill + output * (profile.e + profile.f * (prompt + output / 2))) / 1000


@dataclass(frozen=True, slots=True)
class Trouble:
    """What goes wrong in a run in virtual time."""

    event_lag: float = 0.001
    """seconds from an engine's step to the gateway's index"""
    event_loss: float = 0.0
    """share of event messages that are lost, 0 to 1; the next one shows the gap, and they are replayed"""
    restart: bool = False
    """whether replica 0 dies at half time and is back, with an empty cache, a tenth of the time later"""


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a trace that one seed plays, at the pace of one load."""

    trace: Trace
    load: float
    seed: int
    warm_up: int
    """leading requests that fill the caches and are not counted"""


def fitting(trace: Trace, fleet: Fleet) -> Trace:
    """The requests that a replica can hold. Raises ValueError if there is none."""
    kept = trace.up_to(min(MAX_MODEL_LENGTH, fleet.blocks * fleet.block_size))
    if not kept.requests:
        raise ValueError(f"{trace.name}: no request fits a replica")
    return kept


def windows(trace: Trace, seeds: int, requests: int) -> list[Trace]:
    """`requests` requests in a row for each seed, from places as far apart as there are."""
    spare = max(0, len(trace.requests) - requests)
    return [trace.part(spare * seed // max(1, seeds - 1), requests) for seed in range(seeds)]


def families(trace: Trace, seeds: int, requests: int) -> list[Trace]:
    """About `requests` requests for each seed that share as much as the whole trace does."""
    share = requests / len(trace.requests)
    return [trace.families(share, seed).part(0, requests) if share < 1 else trace for seed in range(seeds)]


def slices(parts: Sequence[Trace], fleet: Fleet, loads: Sequence[float], warm_up: float) -> list[Slice]:
    """Each seed's part of the trace at the pace of each load; the same for every router.

    loads: of the fleet's capacity, > 0. warm_up: share of the requests, 0-1.
    """
    made = []
    for load in loads:
        for seed, part in enumerate(parts):
            rate = len(part.requests) / part.seconds if part.seconds else float("inf")
            paced = part.compressed(load * fleet.capacity(part) / rate)
            made.append(Slice(paced, load, seed, int(warm_up * len(paced.requests))))
    return made


@dataclass(frozen=True, slots=True)
class Bounds:
    """Hit ratios that no router can beat on a slice, its warm-up not counted."""

    ideal: float
    """one cache that never evicts"""
    lru: float
    """one cache of the fleet's total size, least recently used first"""
    belady: float
    """the same, knowing the future"""


def bounds(slice: Slice, fleet: Fleet) -> Bounds:
    """As if all requests came one after the other, in the order of the trace."""
    lookups, size = list(slice.trace.lookups()), slice.trace.block_size
    pooled = fleet.replicas * fleet.profile.l0_tokens // size
    return Bounds(
        infinite(lookups, size, slice.warm_up),
        pooled_lru(lookups, size, pooled, slice.warm_up),
        pooled_belady(lookups, size, pooled, slice.warm_up),
    )
