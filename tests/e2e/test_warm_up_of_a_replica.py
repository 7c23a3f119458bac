"""A replica that joins is given what most prompts begin with, by a real gateway, with simulated replicas."""

from pathlib import Path

import httpx
import yaml
from processes import DEADLINE, all_joined, eventually, gateway_process, replicas_process

SYSTEM = "You answer in rhymes, and never twice the same. " * 20


def chat(question: int) -> dict[str, object]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"Question {question}: why?"}]
    return {"model": "sim", "messages": messages, "max_tokens": 2}


async def test_a_replica_that_joins_computes_what_most_prompts_begin_with(tmp_path: Path) -> None:
    async with replicas_process(2, tmp_path) as urls, httpx.AsyncClient(timeout=DEADLINE) as client:
        settings = {"replicas": [{"url": urls[0]}], "warm_up": {"beginnings": 2}}
        async with gateway_process(settings, tmp_path) as gateway:
            await all_joined(gateway.url, 1)
            for number in range(5):
                (await client.post(gateway.url + "/v1/chat/completions", json=chat(number))).raise_for_status()
            assert gateway.config is not None
            new = urls[1].removeprefix("http://")
            written = yaml.safe_load(gateway.config.read_text())
            written["replicas"] = [{"url": url} for url in urls]
            gateway.config.write_text(yaml.safe_dump(written))
            await all_joined(gateway.url, 2)

            async def held() -> dict[str, int]:
                engines = (await client.get(gateway.url + "/index")).json()
                return {engine["replica"]: engine["blocks"]["GPU"] for engine in engines}

            async def warm() -> bool:
                metrics = (await client.get(gateway.url + "/metrics")).text
                return f'kvgate_warm_up_total{{outcome="computed",replica="{new}"}}' in metrics and bool(
                    (await held())[new]
                )

            await eventually(warm, "the new replica holds what was asked of the other")
            explained = (await client.post(gateway.url + "/explain", json=chat(9))).json()
            found = {candidate["replica"]: candidate["tokens"]["l0"] for candidate in explained["candidates"]}
            assert len(found) == 2
            assert len(set(found.values())) == 1
            assert found[new] > 100
