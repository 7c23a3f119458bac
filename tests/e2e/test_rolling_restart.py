"""Gateways are replaced one after the other under traffic, and no client notices."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from balancer import balancer
from fake_replica import FakeReplica, fake_replica
from openai import AsyncOpenAI
from processes import Running, eventually, gateway_process

GATEWAYS = 2
PAUSE = 0.05
"""seconds between two requests of an asker, so that gateways that start have the processor"""


@dataclass
class Traffic:
    """What was asked through a balancer, until `stopped`."""

    url: str
    answers: int = 0
    failures: list[str] = field(default_factory=list)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def with_kept_connections(self, *, stream: bool) -> None:
        """As the official client asks, which sends again what met a connection that had just been closed."""
        async with AsyncOpenAI(base_url=self.url + "/v1", api_key="x") as client:
            while not self.stopped.is_set():
                try:
                    if stream:
                        chunks = await client.chat.completions.create(
                            model="fake", messages=[], stream=True, extra_body={"behaviour": "stream a while"}
                        )
                        count = len([chunk async for chunk in chunks])
                        assert count >= 20, f"{count} chunks"
                    else:
                        await client.chat.completions.create(model="fake", messages=[])
                    self.answers += 1
                except Exception as exc:
                    self.failures.append(repr(exc))
                await asyncio.sleep(PAUSE)

    async def with_new_connections(self) -> None:
        """One for each request, and nothing is sent again."""
        while not self.stopped.is_set():
            try:
                async with httpx.AsyncClient() as client:
                    body = {"model": "fake", "messages": []}
                    answer = await client.post(self.url + "/v1/chat/completions", json=body)
                assert answer.status_code == 200, answer.text
                self.answers += 1
            except Exception as exc:
                self.failures.append(repr(exc))
            await asyncio.sleep(PAUSE)

    async def goes_on(self) -> None:
        """Until some more requests have ended."""
        before = self.answers

        async def asked_on() -> bool:
            return self.answers >= before + 10 or bool(self.failures)

        await eventually(asked_on, "requests go on")


def port_of(gateway: Running) -> int:
    return int(gateway.url.rsplit(":", 1)[1])


async def start(stack: AsyncExitStack, replicas: Sequence[FakeReplica], folder: Path) -> Running:
    """A gateway that is ready; no Service knows it yet."""
    settings = {"replicas": [{"url": replica.url} for replica in replicas], "limits": {"drain": 20}}
    return await stack.enter_async_context(gateway_process(settings, folder))


async def test_gateways_replaced_under_traffic_fail_no_request(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(fake_replica()) for _ in range(2)]
        service = await stack.enter_async_context(balancer())
        # All are started before there is traffic, which would only make them slow to come.
        gateways = [await start(stack, replicas, tmp_path) for _ in range(2 * GATEWAYS)]
        old, new = gateways[:GATEWAYS], gateways[GATEWAYS:]
        service.ready = [port_of(gateway) for gateway in old]
        traffic = Traffic(service.url)
        askers = [
            asyncio.create_task(asking)
            for asking in (
                traffic.with_kept_connections(stream=True),
                traffic.with_kept_connections(stream=True),
                traffic.with_kept_connections(stream=False),
                traffic.with_new_connections(),
            )
        ]
        for gateway, successor in zip(old, new, strict=True):
            service.ready.append(port_of(successor))
            # As Kubernetes does it: out of the Service first, then, after `preStop`, the signal.
            service.ready.remove(port_of(gateway))
            await asyncio.sleep(0.2)
            gateway.signal(signal.SIGTERM)
            # uvicorn ends by the signal that it was told to end by.
            assert await gateway.process.wait() in (0, -signal.SIGTERM)
            await traffic.goes_on()
        traffic.stopped.set()
        await asyncio.gather(*askers)
        assert traffic.failures == []
