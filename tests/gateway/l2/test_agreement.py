"""What `kvgate check` asks of shared storage: of the files, of LMCache's servers, within a while."""

from pathlib import Path

import httpx
import respx
from l2_world import MODEL, ROOT, SETTINGS, store

from gateway.config.l2 import L2
from gateway.l2.agreement import disagreements
from routing.fleet import ModelCard, Replica
from routing.types import ReplicaId

REPLICA = Replica(ReplicaId("10.0.0.7:8000"), "http://10.0.0.7:8000", (ModelCard(MODEL, ROOT),))


async def found(**settings: object) -> list[str]:
    async with httpx.AsyncClient() as client:
        return await disagreements(L2.model_validate(settings), [REPLICA], client, 5.0)


async def test_files_of_these_settings_are_no_fault_and_those_of_others_are(tmp_path: Path) -> None:
    store(tmp_path, range(1000))
    ours = SETTINGS.model_dump()
    assert await found(path=tmp_path, models={MODEL: ours}) == []
    (fault,) = await found(path=tmp_path, models={MODEL: {**ours, "world": 2}, "not served": ours})
    assert fault.startswith(f"shared storage of {MODEL}: 0 of the last 3 files")
    assert fault.endswith("world is 1, not 2")


async def test_a_folder_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "none"
    assert await found(path=path) == [f"shared storage: {path} can't be listed: No such file or directory"]


async def test_a_folder_that_is_not_listed_in_time_is_a_fault_and_not_waited_for(tmp_path: Path) -> None:
    settings = L2.model_validate({"path": tmp_path})
    async with httpx.AsyncClient() as client:
        told = await disagreements(settings, [REPLICA], client, 0.0)
    assert told == [f"shared storage: {tmp_path} is not listed within 0 s"]


@respx.mock
async def test_what_lmcaches_server_says_otherwise_is_a_fault() -> None:
    respx.get("http://10.0.0.7:8080/status").respond(json={"chunk_size": 64, "hash_algorithm": "blake3"})
    models = {MODEL: {"writer": "lmcache-server"}}
    (fault,) = await found(coordinator=True, server_port=8080, models=models)
    assert fault.endswith("says that chunk is 64, not 256")
