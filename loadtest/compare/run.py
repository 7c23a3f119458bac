"""What `kvgate compare` does."""

import argparse
import asyncio
import json
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from loadtest.compare import sockets, virtual
from loadtest.compare.command import POLICIES, QUICK_POLICIES
from loadtest.compare.document import document
from loadtest.compare.markdown import markdown
from loadtest.compare.outcome import Outcome
from loadtest.compare.plan import Fleet, Slice, Trouble, bounds, families, fitting, slices, windows
from loadtest.compare.routers import Router, kvgate, peer
from loadtest.compare.summary import summary
from loadtest.compare.table import tables
from loadtest.processes import ChildFailed
from loadtest.replica.text import Text
from loadtest.replica.timing import PROFILES
from loadtest.traces.files import load
from loadtest.traces.generate import Mix, generate
from loadtest.traces.trace import Trace
from loadtest.virtual.peers import PEERS
from routing.policies import policy_named

QUICK_REQUESTS = 300
REQUESTS = 400
WARM_UP = 0.25
"""share of a slice that fills the caches and is not counted"""


def compare(args: argparse.Namespace) -> int:
    """Play, print. Returns the exit status. Raises OSError, TraceError, ValueError, ChildFailed, httpx.HTTPError."""
    fleet = Fleet(args.replicas, PROFILES[args.profile], args.block_size, args.slow)
    trouble = Trouble(args.event_lag, args.event_loss, args.restart)
    policies = _policies(args)
    peers = [peer(text) for text in args.peer]
    quick = args.quick or args.virtual
    if quick and peers:
        raise ValueError("in virtual time there are no sockets, so no peers: leave out --quick and --virtual")
    if not quick and (trouble != Trouble() or fleet != Fleet(fleet.replicas, fleet.profile)):
        raise ValueError("trouble, slow replicas and another size of blocks are for virtual time: add --virtual")
    played = _slices(args, fleet)
    limits = {(slice.load, slice.seed): bounds(slice, fleet) for slice in played}
    columns = (TextColumn("{task.description:>28}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        whole = (len(policies) + len(peers)) * sum(len(slice.trace.requests) for slice in played)
        bar = progress.add_task("", total=whole)
        if quick:
            outcomes = _in_virtual_time(played, fleet, policies, trouble, progress, bar)
        else:
            scale = args.time_scale
            routers = [*(kvgate(policy, fleet.profile, scale) for policy in policies), *peers]
            outcomes = asyncio.run(_through_sockets(played, fleet, routers, args.port, scale, progress, bar))
    result = summary(outcomes, limits)
    if args.html:
        args.html.write_text(document(result, outcomes, played[0].trace.name))
    if args.markdown:
        args.markdown.write_text(markdown(result))
    if args.json:
        print(json.dumps(result))
    else:
        Console().print(*tables(result), sep="\n")
    return 0


def _policies(args: argparse.Namespace) -> list[str]:
    named = args.policies or (QUICK_POLICIES if args.quick else POLICIES)
    virtual_only = PEERS if args.quick or args.virtual else ()
    return [name if name in virtual_only else policy_named(name).name for name in named]


def _slices(args: argparse.Namespace, fleet: Fleet) -> list[Slice]:
    requests = args.requests or (QUICK_REQUESTS if args.quick else REQUESTS)
    seeds = args.seeds or (1 if args.quick else 3)
    loads = args.loads or [0.7]
    if args.trace is None:
        parts = [fitting(generate(args.workload, Mix(requests=requests), seed), fleet) for seed in range(seeds)]
    else:
        recorded = load(args.trace)
        trace = fitting(recorded.staggered(args.sessions) if args.sessions else recorded, fleet)
        # A few requests in a row share next to nothing; a few prompts with all that share them do.
        parts = families(trace, seeds, requests) if args.quick or args.families else windows(trace, seeds, requests)
    return slices(_filled(parts), fleet, loads, WARM_UP)


def _filled(parts: Sequence[Trace]) -> Sequence[Trace]:
    if not all(len(part.requests) > 1 for part in parts):
        raise ValueError("too few requests: a part of the workload has less than two")
    return parts


def _in_virtual_time(
    played: Sequence[Slice],
    fleet: Fleet,
    policies: Sequence[str],
    trouble: Trouble,
    progress: Progress,
    bar: TaskID,
) -> list[Outcome]:
    outcomes = []
    for slice in played:
        for policy in policies:
            progress.update(bar, description=_name(slice, policy))
            outcomes.append(virtual.play(slice, fleet, policy, lambda: progress.advance(bar), trouble))
    return outcomes


async def _through_sockets(
    played: Sequence[Slice],
    fleet: Fleet,
    routers: Sequence[Router],
    port: int | None,
    scale: float,
    progress: Progress,
    bar: TaskID,
) -> list[Outcome]:
    text = Text()
    outcomes = []
    failed = ChildFailed("nothing was played")
    async with sockets.replicas(fleet, port, scale) as urls:
        for slice in played:
            for router in routers:
                progress.update(bar, description=_name(slice, router.name))
                try:
                    outcome = await sockets.play(slice, router, urls, text, lambda: progress.advance(bar), scale)
                except ChildFailed as failure:
                    progress.console.print(
                        f"{_name(slice, router.name)}: {failure}", *getattr(failure, "__notes__", ()), sep="\n"
                    )
                    failed = failure
                else:
                    outcomes.append(outcome)
    if not outcomes:
        raise failed
    return outcomes


def _name(slice: Slice, router: str) -> str:
    return f"load {slice.load:g} seed {slice.seed} {router}"
