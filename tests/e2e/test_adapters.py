"""LoRA adapters that a replica loads and unloads while it serves."""

from itertools import count

from fake_replica import FakeReplica, fake_replica
from gateway_here import Here, gateway_here
from processes import eventually

METRICS = 'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="100"} 1.0\n'
WITH_ADAPTERS = METRICS + "# TYPE vllm:lora_requests_info gauge\n"
SETTINGS = {"probing": {"interval": 0.02, "describe_interval": 3600}}
_seconds = count()


def lists(fake: FakeReplica, *adapters: str) -> None:
    """As vLLM does, with a new time in each answer."""
    base = {"id": "fake", "root": "/models/fake", "parent": None, "created": next(_seconds)}
    more = [{"id": name, "root": f"/{name}", "parent": "fake", "created": next(_seconds)} for name in adapters]
    fake.gets["/v1/models"] = {"object": "list", "data": [base, *more]}


async def names(here: Here) -> set[str]:
    return {model["id"] for model in (await here.client.get(here.url + "/v1/models")).json()["data"]}


async def test_an_adapter_is_there_and_gone_with_the_next_probe() -> None:
    async with fake_replica() as fake:
        fake.gets["/metrics"] = WITH_ADAPTERS
        lists(fake)
        async with gateway_here({"replicas": [{"url": fake.url}], **SETTINGS}) as here:

            async def serves(*expected: str) -> None:
                async def holds() -> bool:
                    return await names(here) == {"fake", *expected}

                await eventually(holds, f"the models are {expected}")

            async def status(model: str) -> int:
                body = {"model": model, "messages": []}
                return (await here.client.post(here.url + "/v1/chat/completions", json=body)).status_code

            described = fake.asked["/kv_event_sources"]
            assert await status("sql") == 404
            lists(fake, "sql")
            await serves("sql")
            assert await status("sql") == 200
            lists(fake, "sql", "law")
            await serves("sql", "law")
            lists(fake, "law")
            await serves("law")
            assert await status("sql") == 404
            assert fake.asked["/kv_event_sources"] == described + 3


async def test_an_engine_without_adapters_is_not_asked_for_its_models_again() -> None:
    async with fake_replica() as fake:
        fake.gets["/metrics"] = METRICS
        async with gateway_here({"replicas": [{"url": fake.url}], **SETTINGS}):
            asked, probes = fake.asked["/v1/models"], fake.asked["/health"]

            async def probed() -> bool:
                return fake.asked["/health"] > probes + 5

            await eventually(probed, "it was probed again")
            assert fake.asked["/v1/models"] == asked
