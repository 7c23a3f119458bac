"""What a request leaves in the metrics and in the log."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest
from fake_replica import FakeReplica, fake_replica
from gateway_here import Here, gateway_here, until
from processes import eventually, free_port

from gateway.config import Listen
from gateway.front import operators_front

CHAT = "/v1/chat/completions"
LABELS = '{model="fake",policy="round-robin",replica="%s"}'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}\n\n'
DONE = b"data: [DONE]\n\n"
STREAM: Mapping[str, object] = {
    "model": "fake", "messages": [], "stream": True, "stream_options": {"include_usage": True},
}  # fmt: skip


async def figures(here: Here, fake: FakeReplica, *names: str) -> list[float]:
    """Values of series of the one replica."""
    labels = LABELS % fake.url.removeprefix("http://")
    return [(await here.metric(f"kvgate_{name}"))[labels] for name in names]


async def test_times_between_tokens_are_what_is_left_after_the_first_shared_by_the_others() -> None:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            for part in (HEAD + TOKEN, TOKEN, TOKEN, TOKEN, USAGE + DONE):
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.01)
            return False

        fake.script = script
        await here.client.post(here.url + CHAT, json=STREAM)
        itl, number, ttft, duration, overhead = await figures(
            here, fake, "itl_seconds_sum", "itl_seconds_count", "ttft_seconds_sum", "request_duration_seconds_sum",
            "overhead_seconds_sum",
        )  # fmt: skip
        assert number == 1
        assert itl == pytest.approx((duration - ttft) / 3)
        assert 0 < overhead < ttft


async def test_a_stream_that_breaks_off_or_counts_no_tokens_says_nothing_of_the_time_between_them() -> None:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        for parts in ((HEAD, TOKEN, TOKEN), (HEAD, TOKEN, TOKEN, DONE)):

            async def script(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, parts: tuple[bytes, ...] = parts
            ) -> bool:
                writer.write(b"".join(parts))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
                return False

            fake.script = script
            await here.client.post(here.url + CHAT, json=STREAM)
        assert await figures(here, fake, "itl_seconds_count", "request_duration_seconds_count") == [0, 2]


async def test_a_stream_of_responses_has_its_first_token_when_one_is_computed_and_times_between_them() -> None:
    created = b'event: response.created\ndata: {"response":{"id":"r"}}\n\nevent: response.in_progress\ndata: {}\n\n'
    delta = b'event: response.output_text.delta\ndata: {"delta":"x"}\n\n'
    last = b'event: response.completed\ndata: {"response":{"usage":{"input_tokens":3,"output_tokens":4}}}\n\n'
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        go = asyncio.Event()

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            writer.write(HEAD + created)
            await go.wait()
            for part in (delta, last):
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.01)
            return False

        fake.script = script
        body = {"model": "fake", "input": "x", "stream": True}
        async with here.client.stream("POST", here.url + "/v1/responses", json=body) as answer:
            parts = answer.aiter_bytes()
            await anext(parts)
            await asyncio.sleep(0.2)
            go.set()
            assert b"".join([part async for part in parts]).endswith(delta + last)
        itl, number, ttft, duration = await figures(
            here, fake, "itl_seconds_sum", "itl_seconds_count", "ttft_seconds_sum", "request_duration_seconds_sum"
        )
        assert ttft >= 0.2
        assert number == 1
        assert itl == pytest.approx((duration - ttft) / 3)


async def test_waiting_in_the_queue_is_no_overhead_of_the_gateways() -> None:
    settings = {"admission": {"max_in_flight": 1, "queue": 1}}
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], **settings}) as here:
        go = asyncio.Event()

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            await go.wait()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            await writer.drain()
            return True

        fake.script = script
        body = {"model": "fake", "messages": []}
        asked = [asyncio.create_task(here.client.post(here.url + CHAT, json=body)) for _ in range(2)]
        await until(lambda: fake.requests, "the first is there")
        await asyncio.sleep(0.2)
        go.set()
        assert [answer.status_code for answer in await asyncio.gather(*asked)] == [200, 200]
        overhead, number = await figures(here, fake, "overhead_seconds_sum", "overhead_seconds_count")
        text = (await here.client.get(here.url + "/metrics")).text
        waited = next(
            float(line.split()[1]) for line in text.splitlines() if line.startswith("kvgate_queue_seconds_sum")
        )
        assert number == 2
        assert 0 < overhead < waited


async def test_neither_a_slow_client_nor_a_replica_that_refuses_is_overhead_of_the_gateways() -> None:
    async with (
        fake_replica() as one,
        fake_replica() as other,
        gateway_here({"replicas": [{"url": one.url}, {"url": other.url}]}, joined=2) as here,
    ):

        async def refuse_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            await asyncio.sleep(0.5)
            writer.write(b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            return True

        async def come_late() -> AsyncIterator[bytes]:
            yield b'{"model":"fake",'
            await asyncio.sleep(0.5)
            yield b'"messages":[]}'

        one.script = refuse_late
        while not one.requests:
            assert (await here.client.post(here.url + CHAT, content=come_late())).status_code == 200
        overhead, ttft = await figures(here, other, "overhead_seconds_sum", "ttft_seconds_sum")
        decision = sum((await here.metric("kvgate_decision_seconds_sum")).values())
        assert 0 < decision < 0.5
        assert ttft >= 1.0
        assert 0 < overhead < ttft - 0.9  # however slow the machine is: what it takes is in both


async def test_operators_have_a_port_of_their_own_and_clients_none_of_it() -> None:
    port = free_port()
    listen = {"admin_port": port, "admin_host": "127.0.0.1"}
    operators = f"http://127.0.0.1:{port}"
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], "listen": listen}) as here:
        serving = asyncio.create_task(operators_front(Listen(**listen), here.gateway))
        id = fake.url.removeprefix("http://")
        async with httpx.AsyncClient() as client:

            async def answers() -> bool:
                try:
                    return (await client.get(operators + "/healthz")).status_code == 200
                except httpx.ConnectError:
                    return False

            await eventually(answers, "the operators' port answers")
            for path in ("/metrics", "/readyz", "/index", "/replicas", "/decisions", "/docs"):
                assert (path, (await client.get(operators + path)).status_code) == (path, 200)
                theirs = (await client.get(here.url + path)).status_code
                assert (path, theirs) == (path, 200 if path == "/readyz" else 404)
            assert (await client.post(f"{here.url}/replicas/{id}/drain")).status_code == 404
            assert (await client.post(f"{operators}/replicas/{id}/drain")).json()["state"] == "draining"
            assert (await client.post(operators + CHAT, json=STREAM)).status_code == 404
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
