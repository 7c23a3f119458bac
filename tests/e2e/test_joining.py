"""What a gateway learns of its replicas, and what clients may choose."""

from fake_replica import FakeReplica, fake_replica
from gateway_here import gateway_here
from processes import eventually

BODY = {"model": "fake", "messages": []}


def serves(fake: FakeReplica, *models: str) -> None:
    fake.gets["/v1/models"] = {"data": [{"id": model, "root": f"/{model}", "parent": None} for model in models[:1]] + [
        {"id": model, "root": f"/{model}", "parent": models[0]} for model in models[1:]
    ]}  # fmt: skip


def states(fake: FakeReplica, block_size: int | None) -> None:
    fake.gets["/metrics"] = (
        f'vllm:cache_config_info{{engine="0",block_size="{block_size}",num_gpu_blocks="{block_size}"}} 1.0\n'
    )


async def test_models_are_the_union_of_what_replicas_list_and_each_goes_where_it_is() -> None:
    async with fake_replica() as one, fake_replica() as other:
        serves(one, "a", "both")
        serves(other, "b", "both")
        async with gateway_here({"replicas": [{"url": one.url}, {"url": other.url}]}, joined=2) as here:
            listed = (await here.client.get(here.url + "/v1/models")).json()
            assert listed["object"] == "list"
            explained = (await here.client.post(here.url + "/explain", json={**BODY, "model": "both"})).json()
            assert len(explained["candidates"]) == 2
            assert not one.requests + other.requests, "to explain is not to send"
            assert sorted(model["id"] for model in listed["data"]) == ["a", "b", "both"]
            for model, places in (("a", {one.url}), ("b", {other.url}), ("both", {one.url, other.url})):
                asked = [
                    await here.client.post(here.url + "/v1/chat/completions", json={**BODY, "model": model})
                    for _ in range(4)
                ]
                assert {f"http://{answer.headers['x-kvgate-replica']}" for answer in asked} == places


async def test_a_block_size_that_an_engine_knows_only_after_its_start_is_taken() -> None:
    probing = {"interval": 0.02, "describe_interval": 0.02}
    async with fake_replica() as fake:
        states(fake, None)
        async with gateway_here({"replicas": [{"url": fake.url}], "probing": probing}) as here:
            states(fake, 768)

            async def known() -> bool:
                (engine,) = (await here.client.get(here.url + "/index")).json()
                return bool(engine["block_size"] == 768)

            await eventually(known, "the block size is known")


async def test_a_request_may_not_choose_its_policy_where_that_is_not_allowed() -> None:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        for wanted in ("least-loaded", "nonsense"):
            answer = await here.client.post(
                here.url + "/v1/chat/completions", json=BODY, headers={"x-kvgate-policy": wanted}
            )
            assert (answer.status_code, answer.headers["x-kvgate-policy"]) == (200, "round-robin")
