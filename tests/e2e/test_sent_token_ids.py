"""Token ids that go along to the engine: the gateway's where that is set, a client's never."""

from pathlib import Path

import httpx
from fake_replica import fake_replica
from processes import gateway_process

from loadtest.replica.text import TOKENIZER

PATH = "/v1/chat/completions"
BODY = {"model": "fake", "messages": [{"role": "user", "content": "Hello there"}]}


async def test_a_clients_ids_never_reach_an_engine(tmp_path: Path) -> None:
    settings = {"policy": "round-robin"}
    async with fake_replica() as fake, httpx.AsyncClient() as client:
        settings["replicas"] = [{"url": fake.url}]  # type: ignore[assignment]
        async with gateway_process(settings, tmp_path) as gateway:
            given = {"prompt_token_ids": [1, 2, 3], "lmcache.tag.user": "a"}
            await client.post(gateway.url + PATH, json={**BODY, "kv_transfer_params": given})
    assert fake.requests[0]["kv_transfer_params"] == {"lmcache.tag.user": "a"}


async def test_the_gateways_ids_go_along_until_the_engine_counts_otherwise(tmp_path: Path) -> None:
    async with fake_replica() as fake, httpx.AsyncClient() as client:
        settings = {
            "policy": "kv-aware",
            "replicas": [{"url": fake.url}],
            "models": {"fake": {"tokenizer": str(TOKENIZER), "send_token_ids": True}},
        }
        async with gateway_process(settings, tmp_path) as gateway:
            image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
            shown = {**BODY, "messages": [{"role": "user", "content": [image]}]}
            await client.post(gateway.url + PATH, json=shown)
            for _ in range(2):  # the fake says that every prompt has one token
                assert (await client.post(gateway.url + PATH, json=BODY)).status_code == 200
            metrics = (await client.get(gateway.url + "/metrics")).text
    with_image, first, second = fake.requests
    assert "kv_transfer_params" not in with_image, "what follows the image is not known"
    params = first["kv_transfer_params"]
    assert isinstance(params, dict)
    assert len(params["prompt_token_ids"]) > 3
    assert "kv_transfer_params" not in second
    assert 'kvgate_miscounted_prompts_total{model="fake"} 2.0' in metrics
