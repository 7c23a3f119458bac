"""What seeing costs: decisions kept for the page and a line logged for each request, against neither.

Two gateways on one core take turns. Prints one JSON line with the CPU time of a request in both, as medians, and that
of a line of the traffic log by itself, its thread's included: a prompt that is logged is read anyway under kv-aware.
"""

import argparse
import json
import os
import sys
import tempfile
import time
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


async def run(ports: dict[str, int], pids: dict[str, int], rounds: int, seconds: float) -> dict[str, object]:
    """The figures. ports, pids: of the gateways, by "on" and "off"."""
    costs: dict[str, list[float]] = {name: [] for name in ports}
    for _ in range(rounds):
        for name, port in ports.items():
            sample = Sample()
            await measure(sample, port, CASE, 0.3, seconds, pids[name])
            costs[name].append(sample.cpu / max(1, sample.answers) * 1e6)
    on, off = median(costs["on"]), median(costs["off"])
    # Of rounds side by side, since the machine's speed drifts.
    ratio = median(a / b for a, b in zip(costs["on"], costs["off"], strict=True))
    return {
        "bench": "observing",
        "case": CASE.name,
        "on_us": round(on, 1),
        "off_us": round(off, 1),
        "ratio": round(ratio, 3),
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
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each window measured")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    replica = consecutive_free_ports(1)
    ports = {"on": consecutive_free_ports(1), "off": consecutive_free_ports(1)}
    with (
        tempfile.TemporaryDirectory() as folder,
        process((sys.executable, "-m", "bench.upstream", "--port", str(replica)), cores[-1]),
    ):
        files = {}
        for name, extra in (("on", {}), ("off", {"log_level": "warning", "page": {"decisions": 0}})):
            files[name] = Path(folder) / f"{name}.yaml"
            listen = {"host": "127.0.0.1", "port": ports[name]}
            replicas = [{"url": f"http://127.0.0.1:{replica}"}]
            files[name].write_text(
                yaml.safe_dump({"listen": listen, "replicas": replicas, "policy": "round-robin", **extra})
            )
        commands = {
            name: (sys.executable, "-m", "gateway", "serve", "--config", str(file)) for name, file in files.items()
        }
        with (
            told_on_failure() as told,
            process(commands["on"], cores[0], output=told.fileno()) as on,
            process(commands["off"], cores[0], output=told.fileno()) as off,
        ):
            wait_ready(replica)
            for port in ports.values():
                wait_ready(port)
                wait_settled(port)
            figures = uvloop.run(run(ports, {"on": on, "off": off}, args.rounds, args.seconds))
        print(json.dumps({**figures, "traffic_line_us": round(traffic_line_us(Path(folder)), 1)}), flush=True)


if __name__ == "__main__":
    main()
