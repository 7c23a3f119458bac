"""LMCache's servers that report to the gateway, and are asked for prefetches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import httpx
import respx
from l2_world import CHUNK, MODEL, ROOT, request_of
from prometheus_client import CollectorRegistry

from gateway.background import Background
from gateway.config.l2 import L2, SharedModel
from gateway.l2.key_directory import Batch
from gateway.l2.keys import Chunks, Memory
from gateway.l2.parts import L2Parts
from gateway.l2.schemes import scheme_of
from routing.cost import Prediction
from routing.decision import Decision
from routing.fleet import Fleet, ModelCard, Replica
from routing.types import EngineId, ReplicaId

TOKENS = list(range(3 * CHUNK + 5))
SERVER = SharedModel(writer="lmcache-server")
REPLICA = ReplicaId("10.0.0.7:8000")


@asynccontextmanager
async def parts(**settings: object) -> AsyncIterator[tuple[L2Parts, CollectorRegistry]]:
    fleet, registry = Fleet(), CollectorRegistry()
    fleet.join(Replica(REPLICA, f"http://{REPLICA}", (ModelCard(MODEL, ROOT),)))
    config = L2.model_validate(
        {"coordinator": True, "models": {MODEL: SERVER}, "server_port": 8080, "deadline": 5.0, **settings}
    )
    async with httpx.AsyncClient() as client, Background() as background:
        made = L2Parts(config, fleet, registry, client, background, monotonic)
        try:
            yield made, registry
        finally:
            made.close()


def report(made: L2Parts, seq: int, tier: str, chunks: int) -> None:
    named = Chunks(scheme_of(SERVER, ROOT, None), Memory(), TOKENS)
    names = [name for index in range(chunks) for name in named[index]]
    assert made.directory is not None
    made.directory.register("a", "10.0.0.7:8080")
    made.directory.apply(Batch("a", 1, seq, "store", tier, tier == "l2", names))


async def test_what_is_reported_is_found_without_asking_anybody() -> None:
    async with parts() as (made, _):
        report(made, 1, "l2", chunks=3)
        report(made, 2, "l1", chunks=2)
        found = await made.storage.look_up(request_of(TOKENS), [TOKENS], None, ())
        assert found.prefixes[0].tokens == 3 * CHUNK
        assert found.in_memory == [{REPLICA: 2 * CHUNK}]
        salted = await made.storage.look_up(request_of(TOKENS), [TOKENS], "tenant", ())
        assert (salted.prefixes[0].tokens, salted.in_memory) == (0, [{}])


def decision(waits: float, load: float, l2_tokens: int = 3 * CHUNK) -> Decision:
    prediction = Prediction(queue=waits, decode=0.0, load=0.0, prefill=0.0, room=0.0, shared=load)
    engine = EngineId(REPLICA, 0)
    return Decision(engine, "kv-aware", "", len(TOKENS), l2_tokens, l2_tokens, prediction, (), l2_tokens)


@respx.mock
async def test_a_request_that_waits_has_its_prefix_fetched_meanwhile() -> None:
    asked = respx.post("http://10.0.0.7:8080/cache/prefetches").mock(httpx.Response(202, json={}))
    async with parts(prefetch=True) as (made, registry):
        assert made.prefetcher is not None
        made.prefetcher.consider(MODEL, decision(waits=0.001, load=0.05), TOKENS, None)
        made.prefetcher.consider(MODEL, decision(waits=0.1, load=0.05, l2_tokens=0), TOKENS, None)
        made.prefetcher.consider(MODEL, decision(waits=0.1, load=0.05), TOKENS[: 3 * CHUNK], "tenant")
    assert asked.call_count == 1
    assert httpx.Response(200, content=asked.calls[0].request.content).json() == {
        "model_name": ROOT, "world_size": 1, "token_ids": TOKENS[: 3 * CHUNK], "cache_salt": "tenant",
    }  # fmt: skip
    assert registry.get_sample_value("kvgate_l2_prefetches_total", {"outcome": "accepted"}) == 1


@respx.mock
async def test_a_prefetch_that_fails_is_counted_and_nothing_else() -> None:
    respx.post("http://10.0.0.9:1/cache/prefetches").mock(side_effect=httpx.ConnectError("no"))
    servers = {REPLICA: "http://10.0.0.9:1"}
    async with parts(prefetch=True, servers=servers) as (made, registry):
        assert made.prefetcher is not None
        made.prefetcher.consider(MODEL, decision(waits=0.1, load=0.05), TOKENS, None)
    assert registry.get_sample_value("kvgate_l2_prefetches_total", {"outcome": "failed"}) == 1
