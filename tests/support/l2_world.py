"""Shared storage in a folder, and what it takes to look prompts up in it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import httpx
from prometheus_client import CollectorRegistry

from gateway.background import Background
from gateway.config.l2 import L2, SharedModel
from gateway.l2.keys import Chunks, Memory
from gateway.l2.parts import L2Parts
from gateway.l2.schemes import scheme_of
from routing.blocks import block_hashes
from routing.decision import Prompt, RouteRequest
from routing.fleet import Fleet, ModelCard, Replica
from routing.shared import SharedPrefix
from routing.types import BlockHash, Namespace, ReplicaId

MODEL, ROOT = "m", "/models/q"
CHUNK = 256
KV_BYTES = 4
"""of a token, so that files are small"""
SETTINGS = SharedModel(hash="sha256_cbor", kv_bytes_per_token=KV_BYTES)
SPACE = Namespace(MODEL, 16)


def request_of(tokens: Sequence[int]) -> RouteRequest:
    return RouteRequest(MODEL, (Prompt(len(tokens), {SPACE: block_hashes(tokens, 16, BlockHash(1))}),))


def store(path: Path, tokens: Sequence[int], chunks: int | None = None, settings: SharedModel = SETTINGS) -> list[Path]:
    """Write the files of a prompt's first chunks, as an engine does. Returns them."""
    named = Chunks(scheme_of(settings, ROOT, path), Memory(), tokens)
    size = settings.file_bytes or 1
    written = []
    for index in range(len(named) if chunks is None else chunks):
        for name in named[index]:
            (path / name).write_bytes(bytes(size))
            written.append(path / name)
    return written


@dataclass
class Stored:
    """A folder as shared storage, without the task that looks after it: call `check`."""

    path: Path
    parts: L2Parts
    registry: CollectorRegistry
    fleet: Fleet = field(default_factory=Fleet)

    async def look_up(self, tokens: Sequence[int], salt: str | None = None) -> SharedPrefix | None:
        """What is stored of one prompt; None where nothing was asked."""
        found = await self.parts.storage.look_up(request_of(tokens), [tokens], salt, ())
        return found.prefixes[0] if found.prefixes else None

    async def check(self) -> None:
        await self.parts.storage.health.check()

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"kvgate_l2_{name}", labels) or 0.0


@asynccontextmanager
async def stored(path: Path, model: SharedModel = SETTINGS, **settings: object) -> AsyncIterator[Stored]:
    """Ages are 0 unless they are given, so that nothing is remembered."""
    fleet = Fleet()
    fleet.join(Replica(ReplicaId("a:1"), "http://a:1", (ModelCard(MODEL, ROOT),)))
    values = {"positive_age": 0.0, "negative_age": 0.0, "check_interval": 3600.0, "deadline": 5.0, **settings}
    registry = CollectorRegistry()
    async with httpx.AsyncClient() as client, Background() as background:
        parts = L2Parts(
            L2.model_validate({"path": path, "models": {MODEL: model}, **values}),
            fleet,
            registry,
            client,
            background,
            monotonic,
        )
        try:
            yield Stored(path, parts, registry, fleet)
        finally:
            parts.close()
