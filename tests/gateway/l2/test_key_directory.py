from collections.abc import Iterable

import httpx
import pytest
from fastapi import FastAPI

from gateway.l2.coordinator import coordinator_routes
from gateway.l2.key_directory import Batch, KeyDirectory, Taken
from gateway.l2.names import Server
from gateway.l2.store import Progress

HASHES = ["0a", "0b", "0c"]
CHUNKS = [Server("q").files(name) for name in HASHES]
HOME = "10.0.0.7:8080"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def batch(
    seq: int, names: Iterable[str] = HASHES, *, kind: str = "store", tier: str = "l2", incarnation: int = 1,
    instance: str = "a",
) -> Batch:  # fmt: skip
    files = [file for name in names for file in Server("q").files(name)]
    return Batch(instance, incarnation, seq, kind, tier, tier == "l2", files)


def stored(directory: KeyDirectory) -> int:
    return directory.leading(CHUNKS, Progress())


def test_what_is_stored_is_there_until_anybody_deletes_it() -> None:
    directory = KeyDirectory(Clock())
    assert directory.apply(batch(1)) is Taken.APPLIED
    assert stored(directory) == 3
    directory.apply(batch(1, ["0b"], kind="delete", instance="b"))
    assert stored(directory) == 1


def test_host_memory_is_a_servers_own() -> None:
    directory = KeyDirectory(Clock())
    directory.register("a", HOME)
    directory.apply(batch(1, tier="l1"))
    assert directory.held_by(HOME, CHUNKS) == 3
    assert directory.held_by("10.0.0.8:8080", CHUNKS) == 0
    assert stored(directory) == 0
    directory.apply(batch(2, ["0c"], tier="l1", kind="delete"))
    assert directory.held_by(HOME, CHUNKS) == 2


def test_a_batch_that_comes_twice_or_late_changes_nothing() -> None:
    directory = KeyDirectory(Clock())
    directory.apply(batch(1, incarnation=2))
    assert directory.apply(batch(1, kind="delete", incarnation=2)) is Taken.DUPLICATE
    assert directory.apply(batch(9, kind="delete", incarnation=1)) is Taken.STALE
    assert stored(directory) == 3


def test_a_restart_empties_the_servers_memory_and_not_the_shared_storage() -> None:
    directory = KeyDirectory(Clock())
    directory.register("a", HOME)
    directory.apply(batch(1, tier="l1"))
    directory.apply(batch(2))
    assert directory.apply(batch(1, [], incarnation=2)) is Taken.APPLIED
    assert directory.held_by(HOME, CHUNKS) == 0
    assert stored(directory) == 3


def test_after_a_gap_nothing_counts_that_this_server_told() -> None:
    directory = KeyDirectory(Clock())
    directory.register("a", HOME)
    directory.apply(batch(1, tier="l1"))
    directory.apply(batch(2, ["0b", "0c"]))
    directory.apply(batch(1, ["0a"], instance="b"))
    assert stored(directory) == 3
    directory.apply(batch(7, []))
    assert (stored(directory), directory.held_by(HOME, CHUNKS), directory.gaps) == (1, 0, 4)


def test_a_server_that_is_silent_is_gone_and_what_it_shared_stays() -> None:
    clock = Clock()
    directory = KeyDirectory(clock)
    directory.register("a", HOME)
    directory.apply(batch(1, tier="l1"))
    directory.apply(batch(2))
    clock.now = 20.0
    assert not directory.heartbeat("a")
    assert (directory.held_by(HOME, CHUNKS), stored(directory)) == (0, 3)


@pytest.fixture
def directory() -> KeyDirectory:
    return KeyDirectory(Clock())


@pytest.fixture
async def server(directory: KeyDirectory) -> httpx.AsyncClient:
    app = FastAPI()
    app.include_router(coordinator_routes(directory))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway")


async def test_it_is_spoken_to_as_lmcaches_coordinator(server: httpx.AsyncClient, directory: KeyDirectory) -> None:
    assert (await server.put("/instances/a/heartbeat")).status_code == 404
    there = {"instance_id": "a", "ip": "10.0.0.7", "http_port": 8080, "metadata": {}, "mq_port": 5555}
    assert (await server.post("/instances", json=there)).json() == {"instance_id": "a", "re_registered": False}
    assert (await server.post("/instances", json=there)).json()["re_registered"]
    assert (await server.put("/instances/a/heartbeat")).json() == {"instance_id": "a"}
    entry = {
        "key": {"chunk_hash_hex": "0a", "model_name": "q", "kv_rank": 0x01000100, "object_group_id": 0},
        "size_bytes": 100, "token_ids": list(range(256)), "token_offset": 0,
    }  # fmt: skip
    common = {"instance_id": "a", "incarnation": 1, "backend": "fs", "ts": 1.0, "capacity_bytes": 0}
    batches = [
        {**common, "seq": 1, "event_type": "config", "tier": "l2", "shared": True, "entries": []},
        {**common, "seq": 2, "event_type": "store", "tier": "l2", "shared": True, "entries": [entry]},
        {**common, "seq": 2, "event_type": "store", "tier": "l2", "shared": True, "entries": [entry]},
        {**common, "seq": 3, "event_type": "store", "tier": "l1", "shared": False, "entries": [entry]},
    ]
    answer = await server.post("/events", json={"batches": batches})
    assert answer.json() == {"applied": 3, "duplicates": 1, "stale": 0}
    assert (stored(directory), directory.held_by(HOME, CHUNKS)) == (1, 1)
    assert (await server.delete("/instances/a")).is_success
    assert (stored(directory), directory.held_by(HOME, CHUNKS)) == (1, 0)


async def test_what_is_no_batch_is_refused(server: httpx.AsyncClient) -> None:
    assert (await server.post("/events", json={"batches": [{"instance_id": "a"}]})).status_code == 422
