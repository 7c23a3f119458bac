"""A replica with two data-parallel ranks: two caches, two event streams, one URL."""

from pathlib import Path

import httpx
from processes import DEADLINE, all_joined, eventually, gateway_process, replicas_process


async def test_the_gateway_chooses_the_rank_and_predicts_exactly_what_that_one_finds(tmp_path: Path) -> None:
    async with (
        replicas_process(1, tmp_path, "--time-scale", "0.01", ranks=2) as urls,
        gateway_process({"replicas": [{"url": url} for url in urls]}, tmp_path) as gateway,
        httpx.AsyncClient(timeout=DEADLINE) as client,
    ):
        await all_joined(gateway.url, 1)
        number = 0

        async def both_hold_something() -> bool:
            """After another prompt, twice."""
            nonlocal number
            number += 1
            body = {"model": "sim", "prompt": [number] * 100, "max_tokens": 1}
            for expected in (0, 96):
                answer = await client.post(f"{gateway.url}/v1/completions", json=body)
                found = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
                assert (found, int(answer.headers["x-kvgate-cached-tokens"])) == (expected, expected)
            rows = (await client.get(f"{gateway.url}/index")).json()
            return len(rows) == 2 and all(row["blocks"]["GPU"] for row in rows)

        await eventually(both_hold_something, "both ranks are used")
        assert number > 1
