"""One simulated engine (data-parallel rank): vLLM's scheduling, without a clock, a thread or a socket.

A driver alternates `start_step` and `finish_step`, and lets `Step.seconds` pass between the two, on a real clock or a
virtual one. Requests may be added and aborted at any time, also within a step. vLLM's asynchronous scheduling (planning
one step ahead) is not modelled: it moves some events into a neighbouring batch and changes no cache content.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from loadtest.replica.host_tier import HostTier
from loadtest.replica.kv_events import KVEvent
from loadtest.replica.l2 import SharedFolder, Unloadable
from loadtest.replica.pool import BlockPool
from loadtest.replica.prefix_cache import PrefixCache
from loadtest.replica.request import Request
from loadtest.replica.sliding import SlidingGroups, SlidingSettings
from loadtest.replica.timing import Profile

DEFAULT_BLOCK_SIZE = 16
"""tokens"""
DEFAULT_TOKEN_BUDGET = 8192
"""tokens computed per step at most; vLLM's default for its API server on large GPUs"""
DEFAULT_MAX_SEQUENCES = 256
"""sequences running at once at most"""


class Slice(NamedTuple):
    """What one step computes of one request."""

    request: Request
    start: int
    tokens: int


class Step(NamedTuple):
    slices: list[Slice]
    seconds: float
    """how long the engine is busy with it"""


class Sampled(NamedTuple):
    """A request got its next token; `request.finished` says whether it was the last."""

    request: Request
    token: int


class Outcome(NamedTuple):
    sampled: list[Sampled]
    events: list[KVEvent]
    """one batch, in the order things happened; may be empty"""


@dataclass(slots=True)
class Counters:
    """Totals since the start, in tokens unless said otherwise."""

    queried: int = 0
    """prompt tokens looked up in the prefix cache"""
    hit: int = 0
    """of those, found"""
    prompt: int = 0
    """prompt tokens of requests whose prefill is done"""
    prompt_cached: int = 0
    generated: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})
    """requests by reason"""
    preemptions: int = 0
    """requests"""


class Engine:
    """First come, first served; chunked prefill; a prompt is admitted once all of it fits."""

    def __init__(
        self,
        profile: Profile,
        blocks: int,
        block_size: int,
        token_budget: int = DEFAULT_TOKEN_BUDGET,
        max_sequences: int = DEFAULT_MAX_SEQUENCES,
        storage: SharedFolder | None = None,
        host: HostTier | None = None,
        sliding: SlidingSettings | None = None,
    ) -> None:
        """blocks: physical blocks, the null block included. storage: shared with others. sliding: of a hybrid model."""
        self.profile = profile
        groups = SlidingGroups(sliding, block_size) if sliding else None
        self.cache = PrefixCache(BlockPool(blocks), block_size, groups)
        self.counters = Counters()
        self._token_budget = token_budget
        self._max_sequences = max_sequences
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self._storage = storage
        self.host = host
        self._told: list[KVEvent] = []
        """what happened in host memory after the last step; told with the next"""
        self._loading_ms = 0.0
        self.failed: list[Request] = []
        """requests that ended without an answer, because what was stored could not be loaded; the owner empties it"""

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def capacity(self) -> int:
        """Tokens that fit into the cache; no request may be longer, prompt and output together."""
        return self.cache.pool.usable * self.cache.block_size

    def add(self, request: Request) -> None:
        """Queue a request. It must be able to fit (`capacity`), or it and all behind it would wait for ever."""
        assert request.prompt_length + len(request.output) <= self.capacity
        self._waiting.append(request)

    def abort(self, request: Request) -> bool:
        """Drop a request and free its blocks at once; False if it had finished before."""
        if request in self._running:
            self._running.remove(request)
            self.cache.free(request)
        elif request in self._waiting:
            self._waiting.remove(request)
        else:
            return False
        self.counters.finished["abort"] += 1
        return True

    def reset_prefix_cache(self) -> bool:
        """Empty the cache, unless requests run. The event goes out with the next step, not before."""
        return self.cache.clear()

    def start_step(self) -> Step | None:
        """Decide what to compute next, and allocate and commit its blocks; None if there is nothing to do."""
        slices: list[Slice] = []
        budget = self._schedule_running(slices)
        if budget is not None:
            self._admit(slices, budget)
        return Step(slices, self._seconds(slices)) if slices else None

    def finish_step(self, step: Step) -> Outcome:
        """Take in what the step computed. Requests aborted meanwhile are passed over."""
        sampled: list[Sampled] = []
        told: list[KVEvent] = []
        for request, start, tokens in step.slices:
            if not request.blocks:
                continue
            request.computed = start + tokens
            if request.computed < len(request.tokens):
                continue
            if not request.generated:
                self.counters.prompt += request.prompt_length
                self.counters.prompt_cached += request.cached or 0
                if self._storage is not None:
                    self._storage.store(request.tokens)
                if self.host is not None:
                    told += self.host.store(request)
            sampled.append(Sampled(request, request.sample()))
            self.counters.generated += 1
            if request.finished:
                self.counters.finished[request.finish_reason] += 1
                self._running.remove(request)
                self.cache.free(request)
        events, self.cache.pool.events = self.cache.pool.events + self._told, []
        self._told = told
        return Outcome(sampled, events)

    def _schedule_running(self, slices: list[Slice]) -> int | None:
        """Give each running request its next tokens; returns the budget left, None if somebody was preempted."""
        budget = self._token_budget
        preempted = False
        index = 0
        while index < len(self._running) and budget:
            request = self._running[index]
            tokens = min(len(request.tokens) - request.computed, budget)
            if self.cache.grow(request, tokens):
                slices.append(Slice(request, request.computed, tokens))
                budget -= tokens
                index += 1
            else:
                self._preempt(self._running.pop())
                preempted = True
        return None if preempted else budget

    def _preempt(self, request: Request) -> None:
        """Back to the head of the queue; what it had is recomputed, or found again in the cache."""
        self.cache.free(request)
        request.computed = 0
        self._waiting.appendleft(request)
        self.counters.preemptions += 1

    def _admit(self, slices: list[Slice], budget: int) -> None:
        while self._waiting and budget and len(self._running) < self._max_sequences:
            request = self._waiting[0]
            found = self.cache.find(request)
            if not self.cache.fits(request, found):
                break
            self._waiting.popleft()
            self.cache.adopt(request, found)
            local = request.computed
            if self.host is not None:
                self._loading_ms += self.host.load(request, self.cache)
            if self._storage is not None and not self._load(request, self._storage):
                continue
            if request.cached is None:
                request.cached = request.computed
                self.counters.queried += request.prompt_length
                self.counters.hit += local
            tokens = min(len(request.tokens) - request.computed, budget)
            self.cache.grow(request, tokens)
            self._running.append(request)
            slices.append(Slice(request, request.computed, tokens))
            budget -= tokens

    def _load(self, request: Request, storage: SharedFolder) -> bool:
        """Take from shared storage what goes beyond the cache. Returns False if that ended the request."""
        end = min(storage.find(request.tokens), len(request.tokens) - 1)
        if end <= request.computed:
            return True
        try:
            self._loading_ms += storage.load(request.tokens, request.computed, end)
        except Unloadable:
            if not storage.settings.fails:
                return True
            self.cache.free(request)
            self.failed.append(request)
            return False
        self.cache.grow(request, end - request.computed)
        request.computed = end
        return True

    def _seconds(self, slices: list[Slice]) -> float:
        chunks_ms = 0.0
        sequences = context = 0
        for request, start, tokens in slices:
            if tokens == 1 and start >= request.prompt_length:
                sequences += 1
                context += start + 1
            else:
                chunks_ms += self.profile.chunk_ms(tokens, start)
        loading_ms, self._loading_ms = self._loading_ms, 0.0
        return (loading_ms + self.profile.step_ms(chunks_ms, sequences, context)) / 1000
