"""`kvgate replica`: simulated replicas in the foreground."""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from loadtest.replica.engine import DEFAULT_BLOCK_SIZE
from loadtest.replica.timing import PROFILES

PORTS_PER_REPLICA = 2
"""for events and for their replay"""


class Replica:
    """Runs simulated replicas."""

    help = "run simulated vLLM replicas: exact caches, timed like real ones, no GPU"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """How many, on which ports, and what they simulate."""
        add = parser.add_argument
        add("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
        add("--port", type=int, default=8101, help="HTTP port of the first replica, the others follow")
        add("--count", type=_positive, default=1, help="how many replicas (default %(default)s)")
        add(
            "--kv-port",
            type=int,
            default=5557,
            help="port of the first one's KV events; its replay and the others follow",
        )
        add("--profile", choices=sorted(PROFILES), default="qwen3-32b-h100", help="model and GPU to time")
        add("--blocks", type=_positive, help="KV blocks, one of them the null block (default: what the GPU holds)")
        add("--block-size", type=_positive, default=DEFAULT_BLOCK_SIZE, help="tokens per block (default %(default)s)")
        add("--time-scale", type=_seconds, default=1.0, help="real seconds per simulated second (default %(default)s)")
        add("--model", default="sim", help="name under which the model is served (default %(default)s)")
        add("--l2-dir", type=Path, metavar="DIR", help="a folder that the replicas share, as LMCache does")
        add("--l2-bytes-per-token", type=_positive, default=57_344, help="of KV cache there (default %(default)s)")
        add("--l2-gbps", type=_seconds, default=1.84, help="GB/s at which a replica reads there (default %(default)s)")
        add("--l2-recompute", action="store_true", help="compute what can't be loaded, instead of failing the request")
        add("--seed", type=int, default=0, help="of what the model says")

    def run(self, args: argparse.Namespace) -> int:
        """Serve until SIGINT or SIGTERM. Returns the exit status."""
        from zmq import ZMQError  # this and what `_serve` imports take a second

        try:
            asyncio.run(_serve(args))
        except (OSError, ValueError, ZMQError) as error:
            print(f"kvgate replica: {error}", file=sys.stderr)
            return 1
        return 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text}")
    return number


async def _serve(args: argparse.Namespace) -> None:
    from loadtest.replica.l2 import FolderSettings
    from loadtest.replica.serve import ReplicaSettings, serve
    from loadtest.replica.text import Text

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    text = Text()
    async with contextlib.AsyncExitStack() as stack:
        for index in range(args.count):
            kv_port = args.kv_port + PORTS_PER_REPLICA * index
            settings = ReplicaSettings(
                profile=PROFILES[args.profile],
                blocks=args.blocks,
                block_size=args.block_size,
                time_scale=args.time_scale,
                model=args.model,
                seed=args.seed,
                host=args.host,
                port=args.port + index,
                kv_port=kv_port,
                replay_port=kv_port + 1,
                l2=args.l2_dir
                and FolderSettings(args.l2_dir, args.l2_bytes_per_token, args.l2_gbps, fails=not args.l2_recompute),
            )
            served = await stack.enter_async_context(serve(settings, text))
            print(f"simulated replica at {served.url}, events at {served.publisher.endpoint}", flush=True)
        await ended.wait()
