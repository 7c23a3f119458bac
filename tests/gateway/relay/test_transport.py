"""What the gateway itself asks replicas, over its own connections, with httpx in front."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx
import pytest
from fake_replica import FakeReplica, fake_replica
from processes import eventually, free_port
from unreachable import uncollected, unreachable

from gateway.config import Config
from gateway.relay.credentials import Credentials
from gateway.relay.credentials import client as replica_client
from gateway.relay.limits import Limits
from gateway.relay.transport import PoolTransport


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=PoolTransport(httpx.create_ssl_context())) as client:
        yield client


async def test_answers_come_as_httpx_gives_them(client: httpx.AsyncClient) -> None:
    async with fake_replica() as fake:
        fake.gets["/metrics?all=1"] = "a metric"
        found = await client.get(fake.url + "/metrics", params={"all": "1"})
        assert (found.status_code, found.text) == (200, "a metric")
        assert (await client.get(fake.url + "/nothing")).status_code == 404
        answer = await client.post(fake.url + "/v1/completions", json={"behaviour": "answer", "id": "ours"})
        assert answer.json()["id"] == "ours"
        assert fake.requests == [{"behaviour": "answer", "id": "ours"}]


async def test_a_compressed_answer_is_unpacked(client: httpx.AsyncClient) -> None:
    body = gzip.compress(b'{"compressed": true}')

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        return True

    async with fake_replica() as fake:
        fake.script = script
        assert (await client.post(fake.url, json={})).json() == {"compressed": True}


async def test_each_way_to_fail_is_one_of_httpx(client: httpx.AsyncClient) -> None:
    async with fake_replica() as fake:

        async def ask(behaviour: str, **options: float) -> None:
            await client.post(fake.url + "/v1/completions", json={"behaviour": behaviour}, **options)  # type: ignore[arg-type]

        with pytest.raises(httpx.ReadError):
            await ask("die before headers")
        with pytest.raises(httpx.ReadError):
            await ask("die in a body")
        with pytest.raises(httpx.ReadTimeout):
            await ask("never answer", timeout=0.05)

        async def hung_up() -> bool:
            return fake.open == 0

        await eventually(hung_up, "nothing is left of them")
    with pytest.raises(httpx.ConnectError):
        await client.get(f"http://127.0.0.1:{free_port()}/health")


async def test_a_connection_that_cannot_be_made_in_time_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: object, **kwargs: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    transport = PoolTransport(httpx.create_ssl_context(), Limits(connect=0.01))
    async with httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(httpx.ConnectTimeout):
            await client.get("http://127.0.0.1:9/health")


async def test_a_connection_is_used_again(client: httpx.AsyncClient) -> None:
    connections: list[FakeReplica] = []
    async with fake_replica() as fake:
        for _ in range(5):
            await client.get(fake.url + "/health")
            connections += [fake] * (len(fake._tasks) > 1)
        assert fake.asked["/health"] == 5
        assert connections == []


async def test_what_was_asked_and_answered_is_freed_at_once() -> None:
    config = Config()
    async with fake_replica() as fake, replica_client(config, Credentials(config)) as client:
        with uncollected():
            assert (await client.get(fake.url + "/health")).json() == {}
            assert (await client.get(fake.url + "/nothing")).status_code == 404
            for behaviour in ("die before headers", "die in a body"):
                with pytest.raises(httpx.ReadError):
                    await client.post(fake.url + "/v1/completions", json={"behaviour": behaviour})
            assert not unreachable("httpx")
            assert not unreachable("gateway")
