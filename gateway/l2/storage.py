"""Shared storage as a fact for routing: what of a prompt any engine could load from there, within a deadline."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gateway.config.l2 import L2, SharedModel
from gateway.l2.comparison import Comparison
from gateway.l2.health import Health
from gateway.l2.key_directory import KeyDirectory
from gateway.l2.keys import Chunks, Memory, Scheme
from gateway.l2.metrics import L2Metrics
from gateway.l2.names import Tags
from gateway.l2.schemes import NoScheme, scheme_of
from gateway.l2.store import Progress, Store
from gateway.l2.workers import Saturated, Workers
from gateway.relay.record import Ended, Record
from routing.decision import Prompt, RouteRequest
from routing.fleet import Fleet
from routing.load_fit import LoadFit
from routing.shared import NOTHING_SHARED, SharedPrefix
from routing.types import ReplicaId

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Place:
    """Where and how one model's chunks are stored."""

    settings: SharedModel
    store: Store
    memory: Memory = field(default_factory=Memory)
    scheme: Scheme | None = None
    fault: str | None = None
    """why there is no scheme"""
    next_try: float = 0.0
    """when it may be looked for again"""
    comparison: Comparison | None = None
    """where its files can be listed"""
    fit: LoadFit = field(default_factory=LoadFit)


class Stored(NamedTuple):
    """What was found."""

    prefixes: Sequence[SharedPrefix] = ()
    """of each prompt, in shared storage; empty where nothing was asked"""
    in_memory: Sequence[Mapping[ReplicaId, int]] = ()
    """of each prompt, leading tokens in the host memory of replicas, where their servers report it"""


class SharedStorage:
    """Looks prompts up. Owned by the event loop; what blocks happens in threads that nothing waits for."""

    def __init__(
        self,
        settings: L2,
        places: Mapping[str, Place],
        fleet: Fleet,
        workers: Workers,
        health: Health,
        metrics: L2Metrics,
        now: Callable[[], float],
        reported: KeyDirectory | None = None,
    ) -> None:
        """places: by the name under which a model is served. now: seconds, monotonic.

        reported: what LMCache's servers tell, where they do.
        """
        self._settings = settings
        self._places = places
        self._fleet = fleet
        self._workers = workers
        self._health = health
        self._metrics = metrics
        self._now = now
        self._reported = reported

    @property
    def health(self) -> Health:
        """Whether it is believed."""
        return self._health

    def faults(self) -> list[str]:
        """Models whose files can't be named."""
        return [
            f"shared storage of {name}: {fault}"
            for name, place in self._places.items()
            if (fault := place.fault or (place.comparison and place.comparison.fault))
        ]

    async def look_up(
        self, request: RouteRequest, tokens: Sequence[Sequence[int]], salt: str | None, tags: Tags
    ) -> Stored:
        """What is stored of each prompt. Takes no longer than the deadline.

        tokens: the ids of each prompt, as far as they are known.
        """
        place = self._places.get(request.model or "")
        if place is None or len(tokens) != len(request.prompts):
            return Stored()
        look_ups = partial(self._metrics.look_ups.labels, request.model)
        if not self._health.believed:
            look_ups("off").inc()
            return Stored()
        if not any(len(ids) >= (place.scheme.chunk if place.scheme else 1) for ids in tokens):
            return Stored([self._prefix(place, 0) for _ in tokens])
        if place.comparison is not None:
            place.comparison.served(tokens[0])
        progress = [Progress() for _ in tokens]
        in_memory: list[Mapping[ReplicaId, int]] = []
        started = self._now()
        try:
            asking = self._workers.submit(
                partial(
                    self._ask, place, request, tokens, salt, tags if place.settings.tags else (), progress, in_memory
                )
            )
        except Saturated:
            self._health.failed()
            look_ups("late").inc()
            return Stored()
        await asyncio.wait({asking}, timeout=self._settings.deadline)
        self._metrics.seconds.observe(self._now() - started)
        outcome = _outcome(asking)
        look_ups(outcome).inc()
        if outcome == "answered":
            self._health.worked()
        else:
            self._health.failed()
        return Stored([self._prefix(place, found.chunks) for found in progress], in_memory)

    def ended(self, ended: Ended) -> None:
        """A request is over: did what was promised come?"""
        record = ended.record
        self._fit(record)
        decision, usage = record.decision, record.usage
        if not decision.l2_tokens:
            return
        self._metrics.tokens.labels(record.model).inc(decision.l2_tokens)
        if record.status >= 500:
            # With `kv_load_failure_policy: fail` an engine answers so where a file is cut off.
            self._health.hint(record.model, false=True)
        elif usage and usage.cached_tokens is not None and decision.cached_tokens is not None and record.single:
            self._health.hint(record.model, false=usage.cached_tokens < decision.cached_tokens)

    def _fit(self, record: Record) -> None:
        """Learn from a stream's first token how long loads take, if the request had its engine for itself."""
        place, prediction = self._places.get(record.model), record.decision.prediction
        alone = prediction.queue == prediction.decode == prediction.load == 0.0
        if place is None or not alone or record.ttft is None or not record.done:
            return
        usage, promised = record.usage, record.decision.cached_tokens
        if usage is not None and usage.cached_tokens == promised:
            place.fit.observe(record.ttft, prediction.prefill, prediction.shared)
            self._metrics.load_scale.labels(record.model).set(place.fit.scale)

    def _ask(
        self,
        place: Place,
        request: RouteRequest,
        tokens: Sequence[Sequence[int]],
        salt: str | None,
        tags: Tags,
        progress: Sequence[Progress],
        in_memory: list[Mapping[ReplicaId, int]],
    ) -> None:
        """In a thread."""
        scheme = place.scheme or self._learn_scheme(place, request.model)
        if scheme is None:
            return
        for ids, prompt, found in zip(tokens, request.prompts, progress, strict=True):
            chunks = _chunks(scheme, place.memory, ids, prompt, salt, tags)
            found.chunks = place.store.leading(chunks, found)
            if self._reported is not None:
                in_memory.append(self._in_memory(self._reported, chunks, scheme.chunk))

    def _in_memory(self, reported: KeyDirectory, chunks: Chunks, size: int) -> Mapping[ReplicaId, int]:
        held = {}
        for replica in {engine.id.replica for engine in self._fleet}:
            server = self._settings.server(replica)
            if server is not None and (count := reported.held_by(server.removeprefix("http://"), chunks)):
                held[replica] = count * size
        return held

    def _learn_scheme(self, place: Place, model: str | None) -> Scheme | None:
        if self._now() < place.next_try:
            return None
        place.next_try = self._now() + self._settings.check_interval
        serving = self._fleet.serving(model)
        root = serving[0].replica.base.root if serving else ""
        path = self._settings.path
        try:
            place.scheme = scheme_of(place.settings, root, path if path is None else Path(path))
        except NoScheme as exc:
            if str(exc) != place.fault:
                place.fault = str(exc)
                logger.error("shared storage of %s can't be used: %s", model, exc)
        else:
            place.fault = None
        return place.scheme

    def _prefix(self, place: Place, chunks: int) -> SharedPrefix:
        scheme, settings = place.scheme, place.settings
        if scheme is None:
            return NOTHING_SHARED
        scale = place.fit.scale
        return SharedPrefix(
            chunks * scheme.chunk,
            scheme.chunk,
            settings.load_base * scale,
            settings.seconds_per_token * scale,
            settings.min_tokens,
        )


def _outcome(asking: "asyncio.Future[None]") -> str:
    """How a look-up went. Whatever went wrong, the request goes on without it."""
    if not asking.done():
        asking.cancel()
        return "late"
    error = asking.exception()
    if error is None:
        return "answered"
    if isinstance(error, OSError):
        logger.debug("shared storage: %s", error)
    else:
        logger.error("a look-up in shared storage failed", exc_info=error)
    return "failed"


def _chunks(scheme: Scheme, memory: Memory, ids: Sequence[int], prompt: Prompt, salt: str | None, tags: Tags) -> Chunks:
    for space, blocks in prompt.chains.items():
        if scheme.chunk % space.block_size == 0:
            return Chunks(scheme, memory, ids, blocks, space.block_size, salt, tags)
    return Chunks(scheme, memory, ids, salt=salt, tags=tags)
