"""A replica that closes what is idle costs no client an error."""

import asyncio
from random import Random

from fake_replica import fake_replica
from gateway_here import gateway_here

REQUESTS = 200
IDLE = 0.25
"""seconds after which the replica closes; an engine does after 5"""
BODY = b'{"model": "fake", "messages": []}'


async def test_requests_with_pauses_about_as_long_as_the_replica_waits_all_succeed() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    random = Random(5)
    async with (
        fake_replica(idle=IDLE) as fake,
        gateway_here(
            {"replicas": [{"url": fake.url}], "limits": {"idle_connection": IDLE * 0.8}, "probing": {"interval": 3600}}
        ) as here,
    ):

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            writer.write(answer)
            await writer.drain()
            return True

        fake.script = script
        statuses: list[int] = []

        async def one_after_the_other(count: int) -> None:
            for _ in range(count):
                reply = await here.client.post(here.url + "/v1/chat/completions", content=BODY)
                statuses.append(reply.status_code)
                await asyncio.sleep(random.choice((0, 0, IDLE * random.uniform(0.7, 1.1))))

        await asyncio.gather(*(one_after_the_other(REQUESTS // 20) for _ in range(20)))
        assert statuses == [200] * REQUESTS
