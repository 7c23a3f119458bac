"""What `kvgate report` does."""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from loadtest.replica.timing import PROFILES
from loadtest.report.answers import answers
from loadtest.report.document import document
from loadtest.report.happened import Happened
from loadtest.report.observed import LIMIT, observe
from loadtest.report.shown import shown
from loadtest.report.worth import GPUS, Plan
from loadtest.traces.stream import stream
from loadtest.traces.trace import TraceRequest

FETCH_SECONDS = 60.0
"""how long a gateway may take to send the next piece of its log"""
TOLD_EVERY = 1_000
"""requests between two steps of the progress bar"""

L1_OVER_L0 = 3
"""host memory that holds three times what the GPU does, where nothing else is said"""


def report(args: argparse.Namespace) -> int:
    """Returns the exit status. Raises OSError, TraceError, ValueError, httpx.HTTPError."""
    if bool(args.live) == bool(args.files):
        raise ValueError("name files, or a gateway with --live URL")
    if args.replicas < 1:
        raise ValueError(f"--replicas must be at least 1, not {args.replicas}")
    profile = PROFILES[args.profile]
    plan = Plan(
        replicas=args.replicas,
        profile=profile,
        l1_tokens=L1_OVER_L0 * profile.l0_tokens if args.l1_tokens is None else args.l1_tokens,
        gigabytes_per_second=args.l2_gigabytes_per_second,
        l2_tokens=args.l2_tokens,
        gpu_hour_price=args.gpu_hour_price,
    )
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
    ):
        bar = progress.add_task("reading", total=None)
        files = [_fetched(args.live, Path(folder))] if args.live else args.files
        requests, block_size = stream(files)
        happened = Happened(profile, GPUS[profile.name])
        observed = observe(_counted(requests, progress, bar), block_size, happened, args.sample or LIMIT)
        found = answers(observed, plan, lambda what: progress.update(bar, description=what))
    if args.html:
        args.html.write_text(document(found, observed))
    if args.json:
        print(json.dumps(found))
    else:
        shown(found, Console())
    return 0


def _fetched(url: str, folder: Path) -> Path:
    """A running gateway's traffic log, without a line that is being written."""
    file = folder / "traffic.jsonl"
    with httpx.stream("GET", f"{url.rstrip('/')}/traffic_log", timeout=FETCH_SECONDS) as answer:
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise ValueError(f"{url} writes no traffic log: set `traffic_log`")
        answer.raise_for_status()
        with file.open("wb") as lines:
            for line in answer.iter_lines():
                if line.endswith("}"):
                    lines.write(line.encode() + b"\n")
    return file


def _counted(requests: Iterator[TraceRequest], progress: Progress, bar: TaskID) -> Iterator[TraceRequest]:
    for number, request in enumerate(requests, 1):
        if number % TOLD_EVERY == 0:
            progress.update(bar, description=f"{number:,} requests read")
        yield request
