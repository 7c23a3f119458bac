import httpx
import pytest
import respx
from l2_world import MODEL, ROOT

from gateway.config.l2 import L2
from gateway.l2.servers import Servers
from routing.fleet import Fleet, ModelCard, Replica
from routing.types import ReplicaId

STATUS = "http://10.0.0.7:8080/status"


async def faults(**model: object) -> list[str]:
    """What is found of a model with these settings."""
    fleet = Fleet()
    fleet.join(Replica(ReplicaId("10.0.0.7:8000"), "http://10.0.0.7:8000", (ModelCard(MODEL, ROOT),)))
    settings = L2.model_validate(
        {"coordinator": True, "server_port": 8080, "models": {MODEL: {"writer": "lmcache-server", **model}}}
    )
    async with httpx.AsyncClient() as client:
        servers = Servers(settings, fleet, client)
        await servers.compare()
        return servers.faults


@respx.mock
async def test_settings_that_a_server_does_not_share_are_named() -> None:
    respx.get(STATUS).respond(json={"chunk_size": 64, "hash_algorithm": "sha256_cbor", "is_healthy": True})
    said = "shared storage of m: LMCache's server at http://10.0.0.7:8080 says that "
    assert await faults() == [said + "chunk is 64, not 256", said + "hash is sha256_cbor, not blake3"]
    assert await faults(chunk=64, hash="sha256_cbor") == []


@pytest.mark.parametrize("answer", [httpx.Response(500), httpx.Response(200, text="no"), httpx.ConnectError("away")])
@respx.mock
async def test_one_that_does_not_tell_is_no_fault(answer: httpx.Response | Exception) -> None:
    respx.get(STATUS).mock(side_effect=[answer])
    assert await faults() == []
