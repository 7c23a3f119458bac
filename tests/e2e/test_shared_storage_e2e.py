"""The gateway in front of simulated replicas that share a folder."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from processes import all_joined, eventually, gateway_process, replicas_process

CHUNK = 256
PROMPT = list(range(1000, 2000))
OTHER = list(range(5000, 6000))


class Fleet:
    """Two replicas and the gateway before them."""

    def __init__(self, gateway: str, replicas: list[str], folder: Path, client: httpx.AsyncClient) -> None:
        self.gateway = gateway
        self.replicas = replicas
        self.folder = folder
        self._client = client

    async def ask(self, url: str, prompt: list[int] = PROMPT) -> httpx.Response:
        return await self.post(url, {"model": "sim", "prompt": prompt, "max_tokens": 1})

    async def post(self, url: str, body: dict[str, Any]) -> httpx.Response:
        return await self._client.post(f"{url}/v1/completions", json=body)

    async def explain(self, prompt: list[int] = PROMPT) -> dict[str, Any]:
        params, body = {"endpoint": "/v1/completions"}, {"model": "sim", "prompt": prompt}
        answer = await self._client.post(f"{self.gateway}/explain", params=params, json=body)
        found: dict[str, Any] = answer.json()
        return found

    async def metrics(self) -> str:
        return (await self._client.get(f"{self.gateway}/metrics")).text


@asynccontextmanager
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    folder = tmp_path / "shared"
    folder.mkdir()
    options = ["--l2-dir", str(folder), "--l2-bytes-per-token", "64", "--time-scale", "0.01"]
    async with replicas_process(2, tmp_path, *options) as urls, httpx.AsyncClient(timeout=30) as client:
        shared = {"hash": "sha256_cbor", "kv_bytes_per_token": 64, "load_base": 0.001}
        settings = {
            "replicas": [{"url": url} for url in urls],
            "l2": {"path": str(folder), "deadline": 2.0, "models": {"sim": shared}},
        }
        async with gateway_process(settings, tmp_path) as gateway:
            await all_joined(gateway.url, 2)
            yield Fleet(gateway.url, list(urls), folder, client)


async def test_what_a_replica_stored_is_predicted_and_loaded_elsewhere(tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        first = await world.ask(world.gateway)
        assert first.headers["x-kvgate-cached-tokens"] == "0"
        holder = first.headers["x-kvgate-replica"]

        async def told() -> bool:
            tokens = [c["tokens"] for c in (await world.explain())["candidates"]]
            return any(found["l0"] for found in tokens) and any(found["l2"] for found in tokens)

        await eventually(told, "events arrive, and the files are looked for again")
        candidates = {c["replica"]: c["tokens"] for c in (await world.explain())["candidates"]}
        (other,) = candidates.keys() - {holder}
        assert candidates[holder] == {"l0": 992, "l1": 0, "l2": 0, "prefill": 8}
        assert candidates[other] == {"l0": 0, "l1": 0, "l2": 768, "prefill": 232}

        # Its replica has forgotten everything: both are alike now, and the prediction is what comes.
        async with httpx.AsyncClient() as client:
            await client.post(f"http://{holder}/reset_prefix_cache")
            await world.ask(f"http://{holder}", [1, 2, 3])

        async def forgotten() -> bool:
            return not any(c["tokens"]["l0"] > 0 for c in (await world.explain())["candidates"])

        await eventually(forgotten, "the engine's cache is empty")
        again = await world.ask(world.gateway)
        assert again.headers["x-kvgate-l2-tokens"] == again.headers["x-kvgate-cached-tokens"] == "768"
        assert again.headers["x-kvgate-l2-ms"].startswith("load=1.0 saved=")
        assert again.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 768
        assert 'kvgate_l2_hints_total{model="sim",outcome="delivered"} 1.0' in await world.metrics()

        async def learned() -> bool:
            await world.post(world.gateway, {"model": "sim", "prompt": PROMPT, "max_tokens": 1, "stream": True})
            return 'kvgate_l2_load_scale{model="sim"}' in await world.metrics()

        await eventually(learned, "load times are learned from streams that had an engine for themselves")

        # Files that were cut off promise nothing; the engine asks only whether they exist.
        stored = set(world.folder.glob("*.data"))
        await world.ask(world.replicas[0], OTHER)
        for file in set(world.folder.glob("*.data")) - stored:
            file.write_bytes(b"x")
        assert all(c["tokens"]["l2"] == 0 for c in (await world.explain(OTHER))["candidates"])
        failed = await world.ask(world.replicas[1], OTHER)
        assert failed.status_code == 500
        assert failed.json()["error"]["type"] == "InternalServerError"


async def test_what_comes_before_an_image_is_looked_up(tmp_path: Path) -> None:
    path = "/v1/chat/completions"
    system = {"role": "system", "content": "All that is known of this matter so far. " * 60}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    asked = {"model": "sim", "messages": [system, {"role": "user", "content": [image]}]}
    async with fleet(tmp_path) as world, httpx.AsyncClient(timeout=30) as client:
        body = {"model": "sim", "messages": [system, {"role": "user", "content": "Hello"}], "max_tokens": 1}
        first = await client.post(world.gateway + path, json=body)

        async def told() -> bool:
            answer = await client.post(f"{world.gateway}/explain", params={"endpoint": path}, json=asked)
            held = {c["replica"]: c["tokens"] for c in answer.json()["candidates"]}
            holder = held.pop(first.headers["x-kvgate-replica"])
            (other,) = held.values()
            return bool(holder["l0"] >= other["l2"] >= CHUNK)

        await eventually(told, "the text before the image is found in both places")
