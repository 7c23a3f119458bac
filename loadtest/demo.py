"""`make demo`: the same conversations through the gateway under three policies, on simulated replicas."""

import asyncio
import sys
import traceback
from functools import partial

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadtest.ideal import ideal_hit_ratio
from loadtest.play import PlayFailed
from loadtest.processes import ChildFailed
from loadtest.replica.engine import DEFAULT_BLOCK_SIZE
from loadtest.result import Result, table
from loadtest.trial import Trial, fleet, measure
from loadtest.workload import ChatShape

POLICIES = ("round-robin", "prefix-aware", "kv-aware")
TRIAL = Trial(
    replicas=4,
    profile="llama-8b-l40s",
    shape=ChatShape(
        conversations=24,
        turns=5,
        groups=4,
        system_sentences=60,
        question_sentences=40,
        begin_within=6.0,
        pause=0.5,
    ),
    reply_tokens=32,
    seed=1,
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


async def compare(trial: Trial, console: Console) -> tuple[list[Result], float]:
    """Every policy, on the same replicas with emptied caches; and the hit ratio of one endless cache.

    Raises ChildFailed, PlayFailed or httpx.HTTPError.
    """
    columns = (TextColumn("{task.description:>14}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    results: list[Result] = []
    with Progress(*columns, console=console) as progress:
        starting = progress.add_task("replicas", total=None)
        async with fleet(trial) as replicas:
            progress.remove_task(starting)
            for policy in POLICIES:
                bar = progress.add_task(policy, total=trial.shape.requests)
                results.append(await measure(trial, policy, replicas, partial(progress.advance, bar)))
            async with httpx.AsyncClient(base_url=replicas[0]) as client:
                ideal = await ideal_hit_ratio(client, results[-1].exchanges, DEFAULT_BLOCK_SIZE)
    return results, ideal


def main() -> int:
    """Returns the exit status."""
    console = Console()
    shape = TRIAL.shape
    console.print(
        f"{TRIAL.replicas} simulated vLLM replicas ({TRIAL.profile}, no GPU) behind kvgate; {shape.conversations} "
        f"conversations of {shape.turns} turns with {shape.groups} shared system prompts. Caches are exact; prefill "
        "and decode take as long as on that GPU. All else is real: processes, sockets, KV events, clocks.\n"
    )
    try:
        results, ideal = asyncio.run(compare(TRIAL, console))
    except (ChildFailed, PlayFailed, httpx.HTTPError) as failure:
        console.print("[red]The demo failed.[/red]")
        console.print("".join(traceback.format_exception_only(failure)), markup=False, highlight=False, soft_wrap=True)
        return 1
    console.print(table(results))
    console.print(f"One endless cache for all of them would have hit {ideal:.3f}.")
    lag = max(result.lag for result in results)
    if lag > BUSY_SECONDS:
        console.print(
            f"[yellow]This machine was busy: its own delays (p90 {1000 * lag:.0f} ms, several times per request) are "
            "part of the times above.[/yellow]"
        )
    console.print(NEXT, highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
