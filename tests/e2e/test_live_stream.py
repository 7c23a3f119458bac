"""What the dashboard watches, and the end of the gateway."""

import asyncio
import signal
from pathlib import Path

import httpx
from fake_replica import fake_replica
from processes import DEADLINE, gateway_process


async def test_a_stream_of_the_page_goes_on_until_the_gateway_stops_and_holds_it_up_no_longer(tmp_path: Path) -> None:
    async with fake_replica() as fake:
        # Were the stream waited for, it would be for longer than a test may take.
        settings = {"replicas": [{"url": fake.url}], "limits": {"drain": 600}}
        async with (
            gateway_process(settings, tmp_path) as gateway,
            httpx.AsyncClient() as client,
            client.stream("GET", gateway.url + "/live") as live,
        ):
            lines = live.aiter_lines()
            documents = 0
            while documents < 2:
                documents += (await anext(lines)).startswith("data: ")
            gateway.signal(signal.SIGTERM)
            async with asyncio.timeout(DEADLINE):
                async for _ in lines:
                    pass
                await gateway.process.wait()
