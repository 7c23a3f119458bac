"""Two whole gateways in front of the same replicas, with a real Valkey between them."""

import asyncio
from contextlib import AsyncExitStack

import httpx
from fake_replica import fake_replica
from gateway_here import gateway_here
from processes import eventually
from valkey_server import valkey

CHAT = "/v1/chat/completions"


def body(behaviour: str) -> dict[str, object]:
    return {"model": "fake", "messages": [], "behaviour": behaviour}


async def test_a_gateway_knows_what_the_other_has_under_way() -> None:
    with valkey() as redis:
        async with AsyncExitStack() as stack:
            replicas = [await stack.enter_async_context(fake_replica()) for _ in range(2)]
            settings = {
                "policy": "least-loaded",
                "replicas": [{"url": one.url} for one in replicas],
                "index": {"redis_url": redis.url, "deadline_ms": 1000},
            }
            first, second = [await stack.enter_async_context(gateway_here(settings, joined=2)) for _ in range(2)]

            async def heard() -> bool:
                metrics = [(await one.client.get(one.url + "/metrics")).text for one in (first, second)]
                return all("\nkvgate_gossip_gateways 1.0\n" in text for text in metrics)

            await eventually(heard, "the gateways hear each other")
            hanging = asyncio.create_task(first.client.post(first.url + CHAT, json=body("never answer")))

            async def told() -> bool:
                listed = (await second.client.get(second.url + "/replicas")).json()
                return sorted(replica["in_flight"] for replica in listed) == [0, 1]

            await eventually(told, "the second gateway knows of the first one's request")
            assert await second.in_flight() == 0
            busy = next(replica for replica in replicas if replica.open)
            for _ in range(8):
                answer = await second.client.post(second.url + CHAT, json=body("answer"))
                assert f"http://{answer.headers['x-kvgate-replica']}" != busy.url
            hanging.cancel()

            async def free() -> bool:
                listed: httpx.Response = await second.client.get(second.url + "/replicas")
                return not any(replica["in_flight"] for replica in listed.json())

            await eventually(free, "the second gateway knows that it has ended")
