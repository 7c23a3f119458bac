"""What `kvgate compare` does."""

import argparse
import json
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from loadtest.compare.command import POLICIES, QUICK_POLICIES
from loadtest.compare.outcome import Outcome
from loadtest.compare.plan import Fleet, Slice, bounds, families, fitting, slices, windows
from loadtest.compare.summary import summary
from loadtest.compare.table import tables
from loadtest.compare.virtual import play
from loadtest.replica.text import Text
from loadtest.replica.timing import PROFILES
from loadtest.traces.files import load
from loadtest.traces.generate import Mix, generate
from loadtest.traces.trace import Trace
from routing.policies import policy_named

QUICK_REQUESTS = 300
REQUESTS = 1_000
WARM_UP = 0.25
"""share of a slice that fills the caches and is not counted"""


def compare(args: argparse.Namespace) -> int:
    """Play, print. Returns the exit status. Raises OSError, TraceError, ValueError."""
    console = Console(stderr=True)
    fleet = Fleet(args.replicas, PROFILES[args.profile])
    policies = _policies(args)
    played = _slices(args, fleet)
    limits = {(slice.load, slice.seed): bounds(slice, fleet) for slice in played}
    outcomes = _play(played, fleet, policies, console)
    result = summary(outcomes, limits)
    if args.json:
        print(json.dumps(result))
    else:
        Console().print(*tables(result), sep="\n")
    return 0


def _policies(args: argparse.Namespace) -> list[str]:
    named = args.policies or (QUICK_POLICIES if args.quick else POLICIES)
    return [policy_named(name).name for name in named]


def _slices(args: argparse.Namespace, fleet: Fleet) -> list[Slice]:
    requests = args.requests or (QUICK_REQUESTS if args.quick else REQUESTS)
    seeds = args.seeds or (1 if args.quick else 3)
    loads = args.loads or [0.7]
    if args.trace is None:
        parts = [fitting(generate(args.workload, Mix(requests=requests), seed), fleet) for seed in range(seeds)]
    else:
        trace = fitting(load(args.trace), fleet)
        # A few requests in a row share next to nothing; a few prompts with all that share them do.
        parts = families(trace, seeds, requests) if args.quick else windows(trace, seeds, requests)
    return slices(_filled(parts), fleet, loads, WARM_UP)


def _filled(parts: Sequence[Trace]) -> Sequence[Trace]:
    if not all(len(part.requests) > 1 for part in parts):
        raise ValueError("too few requests: a part of the workload has less than two")
    return parts


def _play(played: Sequence[Slice], fleet: Fleet, policies: Sequence[str], console: Console) -> list[Outcome]:
    text = Text()
    columns = (TextColumn("{task.description:>28}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    outcomes = []
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(policies) * sum(len(slice.trace.requests) for slice in played))
        for slice in played:
            for policy in policies:
                progress.update(bar, description=f"load {slice.load:g} seed {slice.seed} {policy}")
                outcomes.append(play(slice, fleet, policy, text, lambda: progress.advance(bar)))
    return outcomes
