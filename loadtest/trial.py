"""One workload through one gateway on simulated replicas, all of them processes of their own."""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from loadtest.lag import sampled
from loadtest.play import ask, play
from loadtest.processes import ChildFailed, consecutive_free_ports, python
from loadtest.result import Result
from loadtest.workload import ChatShape, chat

MODEL = "sim"


@dataclass(frozen=True, slots=True)
class Trial:
    """What is compared under several policies."""

    replicas: int
    profile: str
    """name of a timing profile"""
    shape: ChatShape
    reply_tokens: int
    seed: int
    time_scale: float = 1.0
    """real seconds per simulated second; the gateway's own time is never scaled"""


@contextlib.asynccontextmanager
async def fleet(trial: Trial) -> AsyncIterator[list[str]]:
    """Simulated replicas in one child process. Yields their URLs. Raises ChildFailed."""
    port, kv_port = consecutive_free_ports(trial.replicas), consecutive_free_ports(2 * trial.replicas)
    urls = [f"http://127.0.0.1:{port + index}" for index in range(trial.replicas)]
    command = ["-m", "loadtest.replica", "--model", MODEL, "--profile", trial.profile]
    command += ["--port", str(port), "--kv-port", str(kv_port), "--count", str(trial.replicas)]
    command += ["--time-scale", str(trial.time_scale)]
    async with python(command, [f"{url}/health" for url in urls]):
        yield urls


async def measure(trial: Trial, policy: str, replicas: Sequence[str], answered: Callable[[], None]) -> Result:
    """Start a gateway with this policy, as a user would, and play the workload through it, from empty caches.

    answered: called after each request. Raises ChildFailed, PlayFailed or httpx.HTTPError.
    """
    port = consecutive_free_ports(1)
    gateway = f"http://127.0.0.1:{port}"
    settings = {
        "listen": {"host": "127.0.0.1", "port": port},
        "policy": policy,
        "profile": trial.profile,
        "replicas": [{"url": url} for url in replicas],
    }
    conversations = chat(trial.shape, trial.seed)
    async with httpx.AsyncClient(base_url=gateway) as client:
        await empty_caches(client, replicas)
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "kvgate.yaml"
            config.write_text(yaml.safe_dump(settings))
            async with python(["-m", "gateway", "serve", "--config", str(config)], [f"{gateway}/readyz"]):
                # The first request pays for what every process loads late; it is not part of the comparison.
                await ask(client, MODEL, [{"role": "user", "content": "Good morning"}], 1)
                queried, hit = await _cache_counters(client, replicas)
                async with sampled() as lag:
                    exchanges = await play(gateway, MODEL, conversations, trial.reply_tokens, answered)
                all_queried, all_hit = await _cache_counters(client, replicas)
    return Result(policy, (all_hit - hit) / (all_queried - queried), exchanges, lag.percentile(90))


async def _cache_counters(client: httpx.AsyncClient, replicas: Sequence[str]) -> tuple[float, float]:
    """(queried, hit) tokens of all replicas together since they started."""
    totals = {"vllm:prefix_cache_queries_total": 0.0, "vllm:prefix_cache_hits_total": 0.0}
    for url in replicas:
        for line in (await client.get(f"{url}/metrics")).text.splitlines():
            name = line.partition("{")[0]
            if name in totals:
                totals[name] += float(line.rsplit(maxsplit=1)[-1])
    queried, hit = totals.values()
    return queried, hit


async def empty_caches(client: httpx.AsyncClient, replicas: Sequence[str]) -> None:
    """Start from nothing. The cleared event goes out with the next step, so one tiny request follows."""
    for url in replicas:
        response = await client.post(f"{url}/reset_prefix_cache")
        if not response.json()["success"]:
            raise ChildFailed(f"{url} would not empty its cache")
        await client.post(f"{url}/v1/completions", json={"prompt": "x", "max_tokens": 1})
