"""What gateways say of replicas' caches against what the replicas hold."""

import asyncio
from collections.abc import Sequence

import httpx

from tests.chaos.children import Child

WITHIN = 5.0
"""seconds after a fault is over in which the index must be right"""


async def seconds_until_right(
    gateways: Sequence[Child], replicas: Sequence[Child], prompts: Sequence[Sequence[int]], *, patience: float
) -> tuple[float, list[str]]:
    """How long it takes, with no requests under way, at most about `patience`; and what was wrong at the last."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with httpx.AsyncClient(timeout=10.0) as http:
        truth = {one.url.removeprefix("http://"): await _held(http, one, prompts) for one in replicas}
        last: list[str] = []
        while True:
            found = await asyncio.gather(*(_wrong(http, gateway, truth, prompts) for gateway in gateways))
            wrong = [fault for faults in found for fault in faults]
            elapsed = loop.time() - began
            if not wrong or elapsed > patience:
                return elapsed, last
            last = wrong
            await asyncio.sleep(0.1)


async def _held(http: httpx.AsyncClient, replica: Child, prompts: Sequence[Sequence[int]]) -> tuple[int, list[int]]:
    """Different blocks in the GPU, and how many tokens of each prompt it would find there."""
    answer = (await http.post(replica.url + "/simulated/held", json={"prompts": prompts})).json()
    return answer["gpu_blocks"], answer["cached_tokens"]


async def _wrong(
    http: httpx.AsyncClient,
    gateway: Child,
    truth: dict[str, tuple[int, list[int]]],
    prompts: Sequence[Sequence[int]],
) -> list[str]:
    said = {row["replica"]: row["blocks"]["GPU"] for row in (await http.get(gateway.url + "/index")).json()}
    held = {replica: blocks for replica, (blocks, _) in truth.items()}
    wrong = [] if said == held else [f"{gateway.name}: {said}, not {held}"]
    answers = await asyncio.gather(
        *(
            http.post(gateway.url + "/explain?endpoint=/v1/completions", json={"model": "sim", "prompt": prompt})
            for prompt in prompts
        )
    )
    for number, answer in enumerate(answers):
        found = (
            {one["replica"]: one["tokens"]["l0"] for one in answer.json()["candidates"]} if answer.is_success else {}
        )
        expected = {replica: cached[number] for replica, (_, cached) in truth.items()}
        if found != expected:
            wrong.append(f"{gateway.name}: prompt {number}: {found}, not {expected}")
    return wrong
