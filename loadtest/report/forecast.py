"""What requests would have met on a fleet: the real router, and engines that prefill one prompt after the other.

Coarser than simulated replicas: a step is never shared by prompts, and an answer's tokens come as fast as when the
first of them did. It knows block ids only, and takes a fraction of a millisecond a request.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, takewhile
from math import ceil
from random import Random
from typing import NamedTuple, cast

from loadtest.replica.engine import DEFAULT_TOKEN_BUDGET
from loadtest.replica.timing import Profile
from loadtest.report.storage import Storage
from loadtest.traces.trace import TraceRequest, lookup
from loadtest.virtual.door import Door, number
from routing import cost
from routing.changes import Drop, Put
from routing.fleet import Lease
from routing.policies import POLICIES
from routing.types import BlockHash, Tier


class Met(NamedTuple):
    """How one request went. Tokens and seconds."""

    prompt: int
    cached: int
    """of the prompt, found in the replica's memory"""
    loaded: int
    """of the prompt, loaded from shared storage"""
    ttft: float
    busy: float
    """that the replica spent on its prompt"""


class _Job(NamedTuple):
    request: TraceRequest
    lease: Lease
    counts: bool


@dataclass(slots=True)
class _Site:
    """One replica."""

    held: OrderedDict[BlockHash, None] = field(default_factory=OrderedDict)
    waiting: deque[_Job] = field(default_factory=deque)
    busy: bool = False
    decoding: int = 0
    context: int = 0
    """tokens of what decodes"""


class Forecast:
    """One policy on one fleet.

    block_size: tokens of the traffic's blocks. storage: shared by all replicas; None for none.
    """

    def __init__(
        self, policy: str, replicas: int, profile: Profile, block_size: int, storage: Storage | None = None
    ) -> None:
        self._profile = profile
        self._size = block_size
        self._capacity = max(1, profile.l0_tokens // block_size)
        self._storage = storage
        self._sites = [_Site() for _ in range(replicas)]
        speed = cost.PROFILES[profile.name]
        self._door = Door(POLICIES[policy], speed, replicas, self._capacity, block_size, Random(0))
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._met: list[Met] = []

    def play(self, requests: Sequence[TraceRequest], warm_up: int) -> list[Met]:
        """In order of prefill. requests: in order of arrival. warm_up: leading ones that are not told. Once only."""
        for position, request in enumerate(requests):
            if request.prompt_tokens:
                self._at(request.arrival, partial(self._arrive, request, position >= warm_up))
        while self._due:
            now, _, act = heapq.heappop(self._due)
            act(now)
        return self._met

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), act))

    def _arrive(self, request: TraceRequest, counts: bool, now: float) -> None:
        decision, lease = self._door.route(request.prompt_tokens, _kept(request, self._size), now)
        replica = number(decision.engine)
        site = self._sites[replica]
        site.waiting.append(_Job(request, lease, counts))
        if not site.busy:
            self._begin(replica, now)

    def _begin(self, replica: int, now: float) -> None:
        site = self._sites[replica]
        site.busy = bool(site.waiting)
        if not site.waiting:
            return
        job = site.waiting.popleft()
        request = job.request
        wanted = cast(Sequence[BlockHash], lookup(request, self._size).wanted)
        found = sum(1 for _ in takewhile(site.held.__contains__, wanted))
        stored = self._storage.found(wanted) if self._storage else 0
        cached, loaded = found * self._size, max(0, stored - found) * self._size
        new = request.prompt_tokens - cached - loaded
        seconds = self._prefill(site, new, cached + loaded)
        if loaded and self._storage:
            seconds += self._storage.seconds(loaded)
        self._at(now + seconds, partial(self._prefilled, replica, job))
        if job.counts:
            self._met.append(Met(request.prompt_tokens, cached, loaded, now + seconds - request.arrival, seconds))

    def _prefill(self, site: _Site, new: int, before: int) -> float:
        """Seconds of the steps that prefill a prompt, and decode beside it."""
        profile = self._profile
        steps = ceil(new / DEFAULT_TOKEN_BUDGET)
        chunks = profile.chunk_ms(new, before) + (steps - 1) * profile.a
        beside = profile.step_ms(chunks, site.decoding, site.context)
        return (beside + (steps - 1) * (profile.e * site.decoding + profile.f * site.context)) / 1000

    def _prefilled(self, replica: int, job: _Job, now: float) -> None:
        site, request = self._sites[replica], job.request
        job.lease.first_token(now)
        self._keep(replica, _kept(request, self._size), now)
        site.decoding += 1
        site.context += request.prompt_tokens
        decode = request.output_tokens * self._profile.itl_ms(site.decoding, site.context) / 1000
        self._at(now + decode, partial(self._ended, replica, job))
        self._begin(replica, now)

    def _ended(self, replica: int, job: _Job, now: float) -> None:
        site = self._sites[replica]
        site.decoding -= 1
        site.context -= job.request.prompt_tokens
        job.lease.release(now)

    def _keep(self, replica: int, blocks: Sequence[BlockHash], now: float) -> None:
        """The replica holds these blocks now, and tells what is new and what had to go."""
        held = self._sites[replica].held
        new = [block for block in blocks if block not in held]
        for block in reversed(blocks):
            held[block] = None
            held.move_to_end(block)
        gone = [held.popitem(last=False)[0] for _ in range(max(0, len(held) - self._capacity))]
        self._door.take_in(replica, [Put(Tier.GPU, new), Drop(Tier.GPU, gone)], now)
        if self._storage:
            self._storage.store(blocks)


def _kept(request: TraceRequest, block_size: int) -> Sequence[BlockHash]:
    return cast(Sequence[BlockHash], list(lookup(request, block_size).kept))
