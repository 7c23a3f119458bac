"""`make demo`: the same conversations through the gateway under three policies, on simulated replicas."""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import httpx
import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadtest.lag import sampled
from loadtest.play import PlayFailed, ask, play
from loadtest.processes import ChildFailed, consecutive_free_ports, python
from loadtest.report import Result, table
from loadtest.workload import ChatShape, chat

MODEL = "sim"
POLICIES = ("round-robin", "prefix-aware", "kv-aware")
REPLICAS = 4
PROFILE = "llama-8b-l40s"
SEED = 1
REPLY_TOKENS = 32
SHAPE = ChatShape(
    conversations=28,
    turns=5,
    groups=4,
    system_sentences=60,
    question_sentences=40,
    begin_within=7.0,
    pause=0.5,
)
"""Small enough for two cores: what is measured must be the replicas' simulated time, not this machine's."""

BUSY_SECONDS = 0.005
"""delay of this machine's event loop, p90, above which the times say more about it than about the replicas"""

NEXT = """\
[bold]Try it yourself[/bold]
  kvgate replica --count 4 &                      # simulated replicas on ports 8101 to 8104
  kvgate serve --replica http://127.0.0.1:8101 --replica http://127.0.0.1:8102 \\
               --replica http://127.0.0.1:8103 --replica http://127.0.0.1:8104 &
  curl -i http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' \\
       -d '{"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}'    # see the x-kvgate-* headers

  from openai import OpenAI
  client = OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="any")
  client.chat.completions.create(model="sim", messages=[{"role": "user", "content": "Hello"}])"""


async def cache_counters(client: httpx.AsyncClient, replicas: Sequence[str]) -> tuple[float, float]:
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


async def measure(policy: str, replicas: Sequence[str], folder: Path, answered: Callable[[], None]) -> Result:
    """Start a gateway with this policy, as a user would, and play the workload through it."""
    port = consecutive_free_ports(1)
    config = folder / f"{policy}.yaml"
    settings = {
        "listen": {"host": "127.0.0.1", "port": port},
        "policy": policy,
        "replicas": [{"url": url} for url in replicas],
    }
    config.write_text(yaml.safe_dump(settings))
    gateway = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient() as client:
        await empty_caches(client, replicas)
        async with python(["-m", "gateway", "serve", "--config", str(config)], [f"{gateway}/readyz"]):
            # The first request pays for what every process loads late; it is not part of the comparison.
            async with httpx.AsyncClient(base_url=gateway) as first:
                await ask(first, MODEL, [{"role": "user", "content": "Good morning"}], 1)
            queried, hit = await cache_counters(client, replicas)
            conversations = chat(SHAPE, SEED)
            async with sampled() as lag:
                exchanges = await play(gateway, MODEL, conversations, REPLY_TOKENS, answered)
            all_queried, all_hit = await cache_counters(client, replicas)
    return Result(policy, (all_hit - hit) / (all_queried - queried), exchanges, lag.percentile(90))


async def compare(console: Console) -> list[Result]:
    """Every policy, one after another, on the same replicas with emptied caches."""
    port, kv_port = consecutive_free_ports(REPLICAS), consecutive_free_ports(2 * REPLICAS)
    replicas = [f"http://127.0.0.1:{port + index}" for index in range(REPLICAS)]
    command = ["-m", "loadtest.replica", "--port", str(port), "--kv-port", str(kv_port), "--count", str(REPLICAS)]
    command += ["--profile", PROFILE, "--model", MODEL]
    columns = (TextColumn("{task.description:>14}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder, Progress(*columns, console=console) as progress:
        starting = progress.add_task("replicas", total=None)
        async with python(command, [f"{url}/health" for url in replicas]):
            progress.update(starting, total=1, completed=1, visible=False)
            for policy in POLICIES:
                bar = progress.add_task(policy, total=SHAPE.requests)
                results.append(await measure(policy, replicas, Path(folder), partial(progress.advance, bar)))
    return results


def main() -> int:
    """Returns the exit status."""
    console = Console()
    console.print(
        f"{REPLICAS} simulated vLLM replicas ({PROFILE}, no GPU) behind kvgate; {SHAPE.conversations} conversations of "
        f"{SHAPE.turns} turns with {SHAPE.groups} shared system prompts. Caches are exact; prefill and decode take the "
        "time that they take on that GPU. All else is real: processes, sockets, KV events, clocks.\n"
    )
    try:
        results = asyncio.run(compare(console))
    except (ChildFailed, PlayFailed, httpx.HTTPError) as failure:
        console.print("[red]The demo failed.[/red]")
        console.print(str(failure), markup=False, highlight=False, soft_wrap=True)
        return 1
    console.print(table(results))
    lag = max(result.lag for result in results)
    if lag > BUSY_SECONDS:
        console.print(
            f"[yellow]This machine was busy with other work: its own delays (p90 {1000 * lag:.0f} ms, several times per "
            "request) are part of the times above.[/yellow]"
        )
    console.print(NEXT, highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
