"""Whatever shared storage does, requests are answered."""

from pathlib import Path

import httpx
import pytest
from mounts import MISSING, can_fail, faulty
from processes import all_joined, eventually, gateway_process, replicas_process

pytestmark = pytest.mark.skipif(not can_fail(), reason=MISSING)

REQUESTS = 4
FAULTS = ("hang-stat", "hang-read")
"""of all kinds that tests/gateway/l2 knows, the ones that make others wait"""


async def test_no_request_fails_or_waits_for_storage(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    options = ["--l2-dir", str(source), "--l2-bytes-per-token", "16", "--time-scale", "0.01"]
    with faulty(source, tmp_path) as mount:
        async with replicas_process(2, tmp_path, *options) as urls, httpx.AsyncClient(timeout=30) as client:
            shared = {"hash": "sha256_cbor", "kv_bytes_per_token": 16}
            settings = {
                "replicas": [{"url": url} for url in urls],
                "l2": {
                    "path": str(mount.path), "deadline": 0.1, "check_interval": 0.1, "read_deadline": 0.1,
                    "models": {"sim": shared},
                },
            }  # fmt: skip
            async with gateway_process(settings, tmp_path) as gateway:
                await all_joined(gateway.url, 2)

                async def ask(number: int) -> httpx.Response:
                    prompt = [number * 1000 + token for token in range(600)]
                    body = {"model": "sim", "prompt": prompt, "max_tokens": 1}
                    return await client.post(f"{gateway.url}/v1/completions", json=body)

                async def degraded() -> list[str]:
                    answer = (await client.get(f"{gateway.url}/readyz")).json()
                    return [fault for fault in answer["degraded"] if "shared storage does not count" in fault]

                assert (await ask(0)).status_code == 200
                for fault in FAULTS:
                    mount.fault(fault)
                    answers = [await ask(number) for number in range(REQUESTS)]
                    assert {answer.status_code for answer in answers} == {200}, fault

                    async def said() -> bool:
                        return bool(await degraded())

                    await eventually(said, f"{fault} is said")
                    mount.fault("")

                    async def healthy() -> bool:
                        await ask(0)
                        return not await degraded()

                    await eventually(healthy, f"it counts again after {fault}")
