"""`kvgate compare`: routers side by side on simulated replicas."""

import argparse
import sys
from pathlib import Path

from loadtest.arguments import above_zero, positive

POLICIES = ("round-robin", "least-loaded", "prefix-aware", "kv-aware")
QUICK_POLICIES = ("round-robin", "prefix-aware", "kv-aware")
PEERS = ("llm-d-3-2-2", "dynamo-cost", "lmetric")
"""rules of other routers, written anew"""
KINDS = ("shared-prompt", "multi-turn", "rag", "agent", "unique")
PROFILES = ("llama-8b-h100", "llama-8b-l40s", "qwen3-32b-h100")


class Compare:
    """Compares policies, and other routers, on one workload."""

    help = "compare policies and other routers on the same trace, simulated replicas and seeds"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """What is played, on which fleet, through whom; and what is written."""
        add = parser.add_argument
        add("--trace", type=Path, metavar="FILE", help="Mooncake's form, agents' sessions (.gz) or Azure's (.csv)")
        add("--workload", choices=KINDS, default="agent", help="what is made up without a trace (default %(default)s)")
        add(
            "--policies",
            nargs="+",
            metavar="NAME",
            help=f"kvgate's (default {' '.join(POLICIES)}); in virtual time also {' '.join(PEERS)}",
        )
        add("--replicas", type=positive, default=8, help="simulated replicas (default %(default)s)")
        add("--profile", choices=PROFILES, default="qwen3-32b-h100", help="model and GPU to time (default %(default)s)")
        add("--loads", nargs="+", type=above_zero, metavar="LOAD", help="of the fleet's capacity (default 0.7)")
        add("--seeds", type=positive, help="parts of the workload, each played through every router (default 3)")
        add("--requests", type=positive, help="for each seed (default 400)")
        add(
            "--families", action="store_true", help="of a trace, whole families of prompts instead of a stretch of time"
        )
        add(
            "--sessions",
            type=positive,
            metavar="N",
            help="of a trace of closed loops, how many are under way at a time (default: all begin together)",
        )
        add(
            "--peer",
            action="append",
            default=[],
            metavar="NAME=URL|COMMAND",
            help="another router: one that runs, or a command, in which {port} is where it shall listen and {replicas} "
            "are the replicas' URLs ({commas}: in one word). A word with {replica} is there once for each; "
            "{events} in it is where its KV events are",
        )
        add("--port", type=positive, help="of the first replica, for routers that run already (default: free ones)")
        add(
            "--time-scale",
            type=above_zero,
            default=1.0,
            help="real seconds per simulated second, through sockets: more on a machine that is busy or slow",
        )
        add("--virtual", action="store_true", help="in virtual time, without sockets: kvgate's policies only")
        add(
            "--block-size",
            type=positive,
            default=16,
            help="tokens; larger ones are faster to simulate (with --virtual)",
        )
        add("--slow", type=int, default=0, help="so many replicas are half as fast (with --virtual)")
        add("--event-lag", type=float, default=0.001, help="seconds until KV events arrive (with --virtual)")
        add("--event-loss", type=float, default=0.0, help="share of KV events lost, then replayed (with --virtual)")
        add("--restart", action="store_true", help="a replica dies at half time and comes back cold (with --virtual)")
        add("--quick", action="store_true", help="one load, one seed, few requests, in virtual time")
        add("--html", type=Path, metavar="FILE", help="write a page with plots")
        add("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown")
        add("--json", action="store_true", help="print one JSON object instead of a table")

    def run(self, args: argparse.Namespace) -> int:
        """Play everything, show how it went. Returns 1 if it can't be done, and says why."""
        from httpx import HTTPError  # this and what follows take a second to import

        from loadtest.compare.run import compare
        from loadtest.processes import ChildFailed
        from loadtest.traces.trace import TraceError

        try:
            return compare(args)
        except (OSError, TraceError, ValueError, ChildFailed, HTTPError) as error:
            print(f"kvgate compare: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
            return 1
