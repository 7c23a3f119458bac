"""`kvgate report`: what traffic says about policies, replicas and shared storage."""

import argparse
import sys
from pathlib import Path

from loadtest.compare.command import PROFILES


class Report:
    """Says from recorded traffic what would pay."""

    help = "say from a traffic log or a trace what would pay: policies, replicas, shared storage"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """What is read, which fleet is thought of, and what is written."""
        add = parser.add_argument
        add(
            "files",
            nargs="*",
            type=Path,
            metavar="TRACE_OR_LOG",
            help="the gateway's traffic log (the oldest file first), Mooncake's traces, agents' sessions (.gz), "
            "Azure's (.csv)",
        )
        add("--live", metavar="URL", help="a gateway that writes a traffic log: report on what it has logged so far")
        add("--replicas", type=int, default=8, help="of the fleet that is thought of (default %(default)s)")
        add("--profile", choices=PROFILES, default="qwen3-32b-h100", help="model and GPU (default %(default)s)")
        add("--l2-gigabytes-per-second", type=float, default=1.84, help="at which a replica reads shared storage")
        add("--l1-tokens", type=int, help="that each replica's host memory holds (default: three times the GPU's)")
        add("--l2-tokens", type=int, default=1 << 30, help="that shared storage holds (default %(default)s)")
        add("--gpu-hour-price", type=float, metavar="MONEY", help="of one GPU; savings are then told in money")
        add("--sample", type=int, metavar="BLOCKS", help="blocks kept at most; more are sampled (default 262144)")
        add("--html", type=Path, metavar="FILE", help="write a page with plots")
        add("--json", action="store_true", help="print one JSON object instead of a summary")

    def run(self, args: argparse.Namespace) -> int:
        """Read, think, show. Returns 1 if a file can't be read or says too little."""
        from httpx import HTTPError  # this and what follows take a second to import

        from loadtest.report.run import report
        from loadtest.traces.trace import TraceError

        try:
            return report(args)
        except (OSError, TraceError, ValueError, HTTPError) as error:
            print(f"kvgate report: {error}", file=sys.stderr)
            return 1
