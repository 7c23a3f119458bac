"""`kvgate replica`: simulated replicas in the foreground."""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from loadtest.arguments import above_zero, positive, share
from loadtest.replica.engine import DEFAULT_BLOCK_SIZE
from loadtest.replica.timing import PROFILES

if TYPE_CHECKING:
    from loadtest.replica.serve import ReplicaSettings
    from loadtest.replica.text import Text

TELLERS = ("offloading", "describing", "lmcache")
PORTS_PER_REPLICA = 2
"""for events and for their replay, of each rank"""


class Replica:
    """Runs simulated replicas."""

    help = "run simulated vLLM replicas: exact caches, timed like real ones, no GPU"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """How many, on which ports, and what they simulate."""
        add = parser.add_argument
        add("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
        add("--port", type=int, default=8101, help="HTTP port of the first replica, the others follow")
        add("--count", type=positive, default=1, help="how many replicas (default %(default)s)")
        add(
            "--kv-port",
            type=int,
            default=5557,
            help="port of the first one's KV events; its replay and the others follow",
        )
        add(
            "--data-parallel-size",
            type=positive,
            default=1,
            metavar="RANKS",
            help="engines behind each replica's URL, with a cache and events each (default %(default)s)",
        )
        add("--kv-topic", default="", metavar="TOPIC", help="of the KV events (default: empty, as vLLM's)")
        add("--profile", choices=sorted(PROFILES), default="qwen3-32b-h100", help="model and GPU to time")
        add("--blocks", type=positive, help="KV blocks, one of them the null block (default: what the GPU holds)")
        add("--block-size", type=positive, default=DEFAULT_BLOCK_SIZE, help="tokens per block (default %(default)s)")
        add(
            "--time-scale", type=above_zero, default=1.0, help="real seconds per simulated second (default %(default)s)"
        )
        add("--model", default="sim", help="name under which the model is served (default %(default)s)")
        add("--enable-scale-out", action="store_true", help="answer the render routes, as vLLM does under this flag")
        add("--l2-dir", type=Path, metavar="DIR", help="a folder that the replicas share, as LMCache does")
        add("--l2-bytes-per-token", type=positive, default=57_344, help="of KV cache there (default %(default)s)")
        add(
            "--l2-gbps", type=above_zero, default=1.84, help="GB/s at which a replica reads there (default %(default)s)"
        )
        add("--l2-recompute", action="store_true", help="compute what can't be loaded, instead of failing the request")
        add("--host-blocks", type=positive, help="blocks that host memory (L1) takes (default: there is none)")
        add("--host-events", choices=TELLERS, default=TELLERS[0], help="who tells of it (default %(default)s)")
        add("--sliding-groups", type=positive, help="a hybrid model: KV-cache groups beside full attention's")
        add("--window", type=positive, default=128, help="tokens that those look back on (default %(default)s)")
        add("--buffer-steps", type=positive, default=10_000, help="event batches kept for replay (default %(default)s)")
        add("--event-loss", type=share, default=0.0, metavar="SHARE", help="of event batches that get lost")
        add("--event-delay", type=above_zero, default=0.0, metavar="SECONDS", help="for which events are held back")
        add("--event-hwm", type=positive, default=100_000, help="batches that may wait for a slow subscriber")
        add(
            "--restart-every", type=above_zero, metavar="SECONDS", help="restart, empty, at random times this far apart"
        )
        add("--seed", type=int, default=0, help="of what the model says and what goes wrong")

    def run(self, args: argparse.Namespace) -> int:
        """Serve until SIGINT or SIGTERM. Returns the exit status."""
        from zmq import ZMQError  # this and what `_serve` imports take a second

        try:
            asyncio.run(_serve(args))
        except (OSError, ValueError, ZMQError) as error:
            print(f"kvgate replica: {error}", file=sys.stderr)
            return 1
        return 0


async def _serve(args: argparse.Namespace) -> None:
    from loadtest.replica.text import Text

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    text = Text()
    await asyncio.gather(*(_live(args, index, text, ended) for index in range(args.count)))


async def _live(args: argparse.Namespace, index: int, text: "Text", ended: asyncio.Event) -> None:
    """One replica, and what comes after it in its place."""
    from loadtest.replica.serve import serve

    settings = _settings(args, index)
    random = Random(args.seed + index)
    while not ended.is_set():
        async with serve(settings, text) as served:
            print(f"simulated replica at {served.url}, events at {served.publisher.endpoint}", flush=True)
            lifetime = random.expovariate(1 / args.restart_every) if args.restart_every else None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), lifetime)


def _settings(args: argparse.Namespace, index: int) -> "ReplicaSettings":
    from loadtest.replica.host_tier import HostSettings, Teller
    from loadtest.replica.l2 import FolderSettings
    from loadtest.replica.publisher import Faults
    from loadtest.replica.serve import ReplicaSettings
    from loadtest.replica.sliding import SlidingSettings

    ranks = args.data_parallel_size
    kv_port = args.kv_port + PORTS_PER_REPLICA * ranks * index
    return ReplicaSettings(
        profile=PROFILES[args.profile],
        blocks=args.blocks,
        block_size=args.block_size,
        time_scale=args.time_scale,
        model=args.model,
        seed=args.seed,
        host=args.host,
        port=args.port + index,
        ranks=ranks,
        kv_port=kv_port,
        replay_port=kv_port + ranks,
        buffer_steps=args.buffer_steps,
        topic=args.kv_topic,
        faults=Faults(args.event_loss, args.event_delay, args.event_hwm, args.seed + ranks * index),
        host_memory=args.host_blocks and HostSettings(args.host_blocks, Teller(args.host_events)),
        sliding=args.sliding_groups and SlidingSettings(args.sliding_groups, args.window),
        l2=args.l2_dir
        and FolderSettings(args.l2_dir, args.l2_bytes_per_token, args.l2_gbps, fails=not args.l2_recompute),
        scale_out=args.enable_scale_out,
    )
