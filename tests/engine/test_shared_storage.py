"""Two replicas, each with LMCache's server, that share a folder through FUSE mounts of their own."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import httpx
import pytest
from mounts import MISSING, can_mount, mounted

from tests.engine.gateway_server import GatewayServer
from tests.engine.prompts import token_ids
from tests.engine.vllm_cpu.lmcache_server import CHUNK, LMCacheServer
from tests.engine.vllm_cpu.server import BLOCK_SIZE, MODEL, Ports, VllmServer, boot
from tests.engine.waiting import wait_until

pytestmark = pytest.mark.skipif(not can_mount(), reason=MISSING)

KV_BYTES = 512
"""of a token: keys and values of 2 layers with one head of 64 numbers of 2 bytes"""
LONG = 5 * CHUNK + 10


class Asked(NamedTuple):
    """An answer through the gateway: what was predicted and what came."""

    replica: str
    predicted: int
    from_storage: int
    cached: int


class World(NamedTuple):
    """The fleet, its gateway, and the shared folder as the gateway sees it."""

    gateway: GatewayServer
    told: GatewayServer
    """another one, which does not see the folder: LMCache's servers report to it"""
    replicas: list[VllmServer]
    folder: Path

    def ask(self, prompt: list[int], max_tokens: int = 2, **fields: Any) -> Asked:
        """Ask for a completion."""
        body = {"model": MODEL, "prompt": prompt, "max_tokens": max_tokens, **fields}
        answer = httpx.post(f"{self.gateway.url}/v1/completions", json=body, timeout=120.0).raise_for_status()
        details = answer.json()["usage"]["prompt_tokens_details"] or {}
        return Asked(
            answer.headers["x-kvgate-replica"],
            int(answer.headers["x-kvgate-cached-tokens"]),
            int(answer.headers.get("x-kvgate-l2-tokens", 0)),
            details.get("cached_tokens") or 0,
        )

    def wait_for_chunks(self, before: int, chunks: int) -> None:
        """Wait until so many chunks have been written."""
        wait_until(f"{chunks} chunks are stored", lambda: self.files() >= before + chunks)

    def files(self) -> int:
        return len(list(self.folder.glob("*.data")))


@pytest.fixture(scope="module")
def world(
    binaries: Path, model: Path, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("shared-storage")
    source = folder / "source"
    source.mkdir()
    reported_to = next(ports)
    with ExitStack() as running:
        replicas, servers = [], {}
        for name in ("first", "second"):
            mount = running.enter_context(mounted(source, folder / f"mount-{name}"))
            log = folder / f"lmcache-{name}.log"
            coordinator = f"http://127.0.0.1:{reported_to}"
            server = running.enter_context(
                LMCacheServer(binaries, next(ports), next(ports), next(ports), mount, log, coordinator)
            )
            where = Ports(next(ports), next(ports), next(ports))
            replicas.append(
                running.enter_context(
                    VllmServer(binaries, model, where, folder / f"{name}.log", arguments=server.vllm_arguments)
                )
            )
            servers[replicas[-1].id] = server.url
        boot(replicas)
        mount = running.enter_context(mounted(source, folder / "mount-gateway"))
        shared = {"writer": "lmcache-server", "chunk": CHUNK, "kv_bytes_per_token": KV_BYTES, "load_base": 0.0}
        settings = {
            "replicas": [{"url": replica.url} for replica in replicas],
            # Neighbours that decode cost far more than it is worth to stay, on a machine of any speed.
            "profile": {"a": 1.0, "b": 0.05, "q": 0.0, "d": 1.0, "e": 200.0, "f": 0.0},
        }
        gateways = []
        for name, port, source_of_facts in (
            ("gateway", next(ports), {"path": str(mount), "prefetch": True}),
            ("told", reported_to, {"coordinator": True}),
        ):
            (folder / name).mkdir()
            # The machine is slower than any mount, and what is tested here is what is found.
            l2 = {**source_of_facts, "servers": servers, "deadline": 1.0, "models": {MODEL: shared}}
            gateways.append(running.enter_context(GatewayServer(port, {**settings, "l2": l2}, folder / name)))
        yield World(gateways[0], gateways[1], replicas, mount)


def busy(replica: VllmServer, world: World) -> Thread:
    """Give a replica something to do for a while, behind the gateway's back."""
    body = {"model": MODEL, "prompt": token_ids("others", 40), "max_tokens": 3000, "ignore_eos": True, "n": 4}

    def ask() -> None:
        # The thread ends with the replica.
        try:
            httpx.post(f"{replica.url}/v1/completions", json=body, timeout=600.0)
        except httpx.TransportError:
            return

    thread = Thread(target=ask, daemon=True)
    thread.start()
    wait_until(
        "it is seen that others run there",
        lambda: world.gateway.metric("kvgate_engine_running", replica=replica.id) > 0,
    )
    return thread


def test_a_prefix_that_one_replica_computed_is_loaded_by_the_other(world: World) -> None:
    prompt = token_ids("shared storage", LONG)
    before = world.files()
    first = world.ask(prompt)
    assert (first.predicted, first.cached) == (0, 0)
    world.wait_for_chunks(before, LONG // CHUNK)

    salted = world.ask(prompt, cache_salt="tenant")
    assert (salted.predicted, salted.from_storage, salted.cached) == (0, 0, 0), "salts are kept apart"

    holder, other = sorted(world.replicas, key=lambda replica: replica.id != first.replica)
    # Or what is seen to run there might be what we have just asked.
    wait_until(
        "nothing is seen to run there",
        lambda: world.gateway.metric("kvgate_engine_running", replica=holder.id) == 0,
    )
    busy(holder, world)
    turn = [*prompt, *token_ids("next turn", 20)]
    params = {"endpoint": "/v1/completions"}
    why = world.gateway.admin.post("/explain", params=params, json={"model": MODEL, "prompt": turn}).json()
    second = world.ask(turn)
    assert second.replica == other.id, why["candidates"]
    assert second.from_storage == second.predicted == LONG // CHUNK * CHUNK
    assert second.cached == second.predicted
    assert world.gateway.metric("kvgate_l2_hints_total", outcome="delivered") == 1


@pytest.mark.parametrize("beyond", [0, 1])
def test_predictions_are_exact_at_the_edge_of_a_chunk(world: World, beyond: int) -> None:
    prompt = token_ids(f"edge {beyond}", 4 * CHUNK + beyond)
    before = world.files()
    first = world.ask(prompt)
    world.wait_for_chunks(before, 4)
    holder = next(replica for replica in world.replicas if replica.id == first.replica)
    # What the GPU held is gone; LMCache's server and the folder have it still.
    httpx.post(f"{holder.url}/reset_prefix_cache", timeout=60.0).raise_for_status()
    again = world.ask(prompt)
    assert again.cached == again.predicted, (again, BLOCK_SIZE)


def test_lmcaches_servers_report_what_they_store(world: World) -> None:
    prompt = token_ids("reported", 3 * CHUNK + 7)
    first = world.ask(prompt)
    params = {"endpoint": "/v1/completions"}

    def seen() -> dict[str, dict[str, int]]:
        answer = world.told.admin.post("/explain", params=params, json={"model": MODEL, "prompt": prompt}).json()
        return {candidate["replica"]: candidate["tokens"] for candidate in answer["candidates"]}

    (other,) = {replica.id for replica in world.replicas} - {first.replica}
    wait_until("what was stored is reported", lambda: seen()[other]["l2"] == 3 * CHUNK)
    holder = next(replica for replica in world.replicas if replica.id == first.replica)
    # Without the GPU's blocks, what counts of the first one is its server's memory.
    httpx.post(f"{holder.url}/reset_prefix_cache", timeout=60.0).raise_for_status()
    world.ask(token_ids("something else", 40))
    tokens = seen()[first.replica]
    assert tokens["l0"] + tokens["l1"] == 3 * CHUNK
    assert tokens["l2"] == 0


def test_what_is_stored_is_fetched_while_a_request_waits(world: World) -> None:
    prompt = token_ids("fetched", LONG)
    before = world.files()
    first = world.ask(prompt)
    world.wait_for_chunks(before, LONG // CHUNK)
    holder = next(replica for replica in world.replicas if replica.id == first.replica)
    httpx.post(f"{holder.url}/reset_prefix_cache", timeout=60.0).raise_for_status()
    for replica in world.replicas:
        busy(replica, world)
    answer = world.ask(prompt)
    assert answer.from_storage == answer.cached == LONG // CHUNK * CHUNK
    wait_until(
        "LMCache's server took the prefetch",
        lambda: world.gateway.metric("kvgate_l2_prefetches_total", outcome="accepted") >= 1,
    )
    assert world.gateway.metric("kvgate_l2_prefetches_total", outcome="refused") == 0
