"""What seeing costs: decisions kept for the page and a line logged for each request, against neither.

Two gateways on one core take turns, and then two new ones: what a process costs by where its memory happens to lie
differs by more than what is measured here. Prints one JSON line with the CPU time of a request in both, as medians, and
that of a line of the traffic log by itself, its thread's included: a prompt that is logged is read anyway under
kv-aware.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median
from time import process_time

import msgspec
import uvloop
import yaml
from prometheus_client import CollectorRegistry

from bench.page import World
from bench.relay import CASES, Sample, measure, process, told_on_failure, wait_ready, wait_settled
from gateway.config import TrafficLogConfig
from gateway.traffic_log import PENDING, TrafficLog
from loadtest.processes import consecutive_free_ports
from routing.decision import Prompt
from routing.types import BlockHash, Namespace

CASE = next(case for case in CASES if case.name == "2KB")


WAYS: Mapping[str, Mapping[str, object]] = {"on": {}, "off": {"log_level": "warning", "page": {"decisions": 0}}}
"""settings of the gateways that are compared"""

Costs = dict[str, list[float]]
"""microseconds of CPU for a request, by way, of windows side by side"""


async def take_turns(ports: Mapping[str, int], pids: Mapping[str, int], rounds: int, seconds: float) -> Costs:
    """Measure gateways that run. ports, pids: by way."""
    costs: Costs = {name: [] for name in ports}
    for _ in range(rounds):
        for name, port in ports.items():
            sample = Sample()
            await measure(sample, port, CASE, 0.3, seconds, pids[name])
            costs[name].append(sample.cpu / max(1, sample.answers) * 1e6)
    return costs


def pair(folder: Path, replica: int, order: Sequence[str], core: int, rounds: int, seconds: float) -> Costs:
    """Start a gateway of each way on one core, in this order, measure and end them. replica: its port."""
    with ExitStack() as stack:
        told = stack.enter_context(told_on_failure())
        ports, pids = {}, {}
        for name in order:
            ports[name] = consecutive_free_ports(1)
            listen = {"host": "127.0.0.1", "port": ports[name]}
            settings = {"listen": listen, "replicas": [{"url": f"http://127.0.0.1:{replica}"}], "policy": "round-robin"}
            file = folder / f"{name}.yaml"
            file.write_text(yaml.safe_dump({**settings, **WAYS[name]}))
            command = (sys.executable, "-m", "gateway", "serve", "--config", str(file))
            pids[name] = stack.enter_context(process(command, core, output=told.fileno()))
        for port in ports.values():
            wait_ready(port)
            wait_settled(port)
        return uvloop.run(take_turns(ports, pids, rounds, seconds))


def figures(pairs: Sequence[Costs]) -> Mapping[str, object]:
    """Medians over pairs of medians over windows. Ratios are of windows side by side: a machine's speed drifts."""
    ratios = [median(on / off for on, off in zip(costs["on"], costs["off"], strict=True)) for costs in pairs]
    return {
        "bench": "observing",
        "case": CASE.name,
        "on_us": round(median(median(costs["on"]) for costs in pairs), 1),
        "off_us": round(median(median(costs["off"]) for costs in pairs), 1),
        "ratio": round(median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in sorted(ratios)],
    }


def traffic_line_us(folder: Path, lines: int = 20_000) -> float:
    """Microseconds of CPU for a line of the traffic log: a prompt of 512 tokens, one candidate."""
    (ended,) = World(Random(1), engines=1).ended(1)
    blocks = [BlockHash(number) for number in range(32)]
    prompt = Prompt(512, {Namespace("m", 16): blocks})
    ended = msgspec.structs.replace(ended, inbound=msgspec.structs.replace(ended.inbound, prompts=[prompt]))
    log = TrafficLog(TrafficLogConfig(path=folder / "traffic.jsonl"), CollectorRegistry())
    begun = process_time()
    for number in range(lines):
        log.add(ended)
        if number % (PENDING // 2) == 0:
            time.sleep(0.05)  # so that none is dropped
    log.close()
    return (process_time() - begun) / lines * 1e6


def main() -> None:
    """Run it and print its line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9, help="of gateways")
    parser.add_argument("--rounds", type=int, default=6, help="for each pair")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each window measured")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    replica = consecutive_free_ports(1)
    with (
        tempfile.TemporaryDirectory() as name,
        process((sys.executable, "-m", "bench.upstream", "--port", str(replica)), cores[-1]),
    ):
        wait_ready(replica)
        folder = Path(name)
        orders = [list(WAYS), list(WAYS)[::-1]]
        pairs = [
            pair(folder, replica, orders[number % 2], cores[0], args.rounds, args.seconds)
            for number in range(args.pairs)
        ]
        print(json.dumps({**figures(pairs), "traffic_line_us": round(traffic_line_us(folder), 1)}), flush=True)


if __name__ == "__main__":
    main()
