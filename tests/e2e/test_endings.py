"""However a request ends, its lease is back, its upstream closed, and one metric row written."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from fake_replica import FakeReplica, fake_replica
from processes import all_joined, eventually, gateway_process

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "/v1/chat/completions"


def body(behaviour: str, **fields: object) -> dict[str, object]:
    return {"model": "fake", "messages": [], "behaviour": behaviour, **fields}


@dataclass
class World:
    """One fake replica behind one gateway."""

    gateway: str
    fake: FakeReplica
    client: httpx.AsyncClient
    earlier: Counter[str] = field(default_factory=Counter)

    async def quiet(self) -> bool:
        """No lease is out and the replica works on nothing."""
        engines = (await self.client.get(self.gateway + "/index")).json()
        return not sum(engine["in_flight"] for engine in engines) and not self.fake.open

    async def rows(self) -> Mapping[str, int]:
        """Requests of this test by outcome."""
        return await self._all_rows() - self.earlier

    async def begin(self) -> None:
        """What was until now is of earlier tests."""
        assert await self.quiet()
        self.earlier = await self._all_rows()
        self.fake.requests.clear()

    async def _all_rows(self) -> Counter[str]:
        text = (await self.client.get(self.gateway + "/metrics")).text
        rows: Counter[str] = Counter()
        for line in text.splitlines():
            if line.startswith("kvgate_requests_total{"):
                outcome = line.split('outcome="')[1].split('"')[0]
                rows[outcome] += int(float(line.rsplit(" ", 1)[1]))
        return rows


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with fake_replica() as fake:
        settings = {"policy": "round-robin", "replicas": [{"url": fake.url}], "log_level": "warning"}
        folder = tmp_path_factory.mktemp("endings")
        async with gateway_process(settings, folder) as gateway, httpx.AsyncClient(timeout=30) as client:
            yield World(gateway.url, fake, client)


@pytest_asyncio.fixture(loop_scope="module")
async def world(running: World) -> World:
    await running.begin()
    return running


async def hang_up(world: World, behaviour: str, after: bytes = b"") -> None:
    """Send a request, wait for `after` in the answer, and close."""
    payload = json.dumps(body(behaviour, stream=True)).encode()
    host, port = world.gateway.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    before = len(world.fake.requests)
    head = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(payload))
    writer.write(head + payload)
    if after:
        await reader.readuntil(after)
    else:
        await eventually(lambda: _is(len(world.fake.requests) > before), "the replica got the request")
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def _is(value: bool) -> bool:
    return value


async def test_a_client_that_leaves_before_the_headers_ends_the_work(world: World) -> None:
    await hang_up(world, "never answer")
    await eventually(world.quiet, "lease and upstream are back")
    assert await world.rows() == {"client_gone": 1}


async def test_a_client_that_leaves_in_a_stream_ends_the_work(world: World) -> None:
    await hang_up(world, "stream for ever", after=b'"x"')
    await eventually(world.quiet, "lease and upstream are back")
    assert await world.rows() == {"client_gone": 1}


async def test_a_client_that_leaves_in_its_upload_never_reaches_a_replica(world: World) -> None:
    host, port = world.gateway.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b'POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"model"' % CHAT.encode())
    await writer.drain()
    writer.transport.abort()

    async def counted() -> bool:
        return await world.rows() == {"client_gone": 1}

    await eventually(counted, "the row is written")
    assert not world.fake.requests


async def test_a_replica_that_dies_before_its_headers_is_a_502(world: World) -> None:
    answer = await world.client.post(world.gateway + CHAT, json=body("die before headers"))
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "replica_failed"
    assert await world.quiet()
    assert len(world.fake.requests) == 1, "what may have been begun is not done twice"


async def test_a_replica_that_dies_in_a_short_answer_is_a_502(world: World) -> None:
    answer = await world.client.post(world.gateway + CHAT, json=body("die in a body"))
    assert answer.status_code == 502
    assert await world.quiet()


async def test_a_stream_that_breaks_ends_with_an_error_and_without_done(world: World) -> None:
    answer = await world.client.post(world.gateway + CHAT, json=body("die in a stream", stream=True))
    events = [event for event in answer.text.split("\n\n") if event]
    assert answer.status_code == 200
    assert json.loads(events[0].removeprefix("data: "))["choices"]
    assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == 502
    assert "[DONE]" not in answer.text
    assert await world.quiet()
    assert await world.rows() == {"upstream_broken": 1}


async def test_a_thousand_aborts_leave_no_trace(world: World) -> None:
    places = asyncio.Semaphore(50)

    async def abort(number: int) -> None:
        async with places:
            await hang_up(world, *(("never answer",) if number % 2 else ("stream for ever", b'"x"')))

    await asyncio.gather(*(abort(number) for number in range(1000)))
    await eventually(world.quiet, "all leases and upstreams are back")
    assert await world.rows() == {"client_gone": 1000}
    assert (await world.client.post(world.gateway + CHAT, json=body("answer"))).status_code == 200


async def test_a_replica_that_refuses_costs_no_client_an_error(tmp_path: Path) -> None:
    async with fake_replica() as alive, fake_replica() as dying:
        # Probed so seldom that only the requests themselves find out.
        settings = {
            "policy": "round-robin",
            "replicas": [{"url": alive.url}, {"url": dying.url}],
            "probing": {"interval": 3600},
        }
        async with gateway_process(settings, tmp_path) as gateway, httpx.AsyncClient() as client:
            await all_joined(gateway.url, 2)
            dying.stop_listening()
            for _ in range(6):
                assert (await client.post(gateway.url + CHAT, json=body("answer"))).status_code == 200
            assert len(alive.requests) == 6
