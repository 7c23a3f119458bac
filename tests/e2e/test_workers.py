"""Several gateway processes on one port, on real sockets, with a real Valkey and simulated replicas."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from pathlib import Path

import httpx
from processes import DEADLINE, Running, all_joined, eventually, free_port, gateway_process, replicas_process
from valkey_server import valkey

QUESTION = {"model": "sim", "prompt": "Who goes there? " * 40, "max_tokens": 2}


def worker_processes(gateway: Running) -> dict[str, int]:
    """The last process of each worker, by its number."""
    return {number: int(pid) for number, pid in re.findall(r"worker (\d) is process (\d+)", gateway.log.read_text())}


def operators(gateway: Running, worker: int) -> str:
    """Where one worker's readiness and metrics are."""
    head, _, port = gateway.url.rpartition(":")
    return f"{head}:{int(port) + 1 + worker}"


async def asked(url: str) -> str:
    """How many cached tokens are predicted for a question; over a connection of its own, which any worker may get."""
    async with httpx.AsyncClient(timeout=DEADLINE) as client:
        answer = await client.post(f"{url}/v1/completions", json=QUESTION)
        assert answer.status_code == 200
        return answer.headers["x-kvgate-cached-tokens"]


async def test_workers_share_a_port_and_an_index_and_are_replaced_when_they_die(tmp_path: Path) -> None:
    with valkey() as redis:
        async with replicas_process(2, tmp_path) as urls, httpx.AsyncClient(timeout=DEADLINE) as client:
            index = {"redis_url": redis.url, "deadline_ms": 1000}
            settings = {"replicas": [{"url": url} for url in urls], "index": index}
            async with gateway_process(settings, tmp_path, "--workers", "2") as gateway:
                both = [operators(gateway, worker) for worker in range(2)]

                async def answer() -> bool:
                    with contextlib.suppress(httpx.TransportError):
                        return all([(await client.get(f"{url}/readyz")).status_code == 200 for url in both])
                    return False

                await eventually(answer, "operators find both workers")
                for url in both:
                    await all_joined(url, 2)
                assert await asked(gateway.url) == "0"

                async def both_know() -> bool:
                    found = [await asked(gateway.url) for _ in range(4)]
                    served = ["kvgate_requests_total{" in (await client.get(f"{url}/metrics")).text for url in both]
                    return all(served) and "0" not in found

                await eventually(both_know, "what one worker sent is known to the other")

                killed = worker_processes(gateway)
                os.kill(killed["0"], signal.SIGKILL)

                async def replaced() -> bool:
                    return worker_processes(gateway)["0"] != killed["0"] and await answer()

                await eventually(replaced, "another worker took its place")
                assert worker_processes(gateway)["1"] == killed["1"]
                await asked(gateway.url)
                gateway.signal(signal.SIGTERM)
                assert await asyncio.wait_for(gateway.process.wait(), DEADLINE) == 0
                for pid in worker_processes(gateway).values():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, 0)
                        raise AssertionError(f"worker {pid} was left behind")


async def test_workers_without_a_shared_index_are_refused_with_the_reason() -> None:
    arguments = ["serve", "--replica", "http://127.0.0.1:9", "--port", str(free_port()), "--workers", "2"]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *arguments, stderr=asyncio.subprocess.PIPE
    )
    _, error = await asyncio.wait_for(child.communicate(), DEADLINE)
    assert child.returncode == 2
    assert b"index.redis_url" in error
