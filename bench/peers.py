"""The gateway beside other routers: each alone under load on one core, the fake replica and the load on another.

    {"bench":"peers","case":"2KB","router":"kvgate round-robin","cpu_us":..,"per_s":..,
     "ratio_to_vllm_router_round_robin":..}

`cpu_us` and `per_s` are of requests, of chunks for streams. Cases of few clients also have `added_ms`: how much later
than without a router a request is answered. `rss_mb` is a router's memory after the case. Rounds go through all
routers, so that a busy machine shows in each.

The others are looked for in a venv of their own. What is not there, or does not answer, is left out with a line that
says so:

    python3 -m venv ~/.cache/kvgate/peers
    ~/.cache/kvgate/peers/bin/pip install vllm-router sglang-router smg
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory

import uvloop

from bench.relay import Case, Sample, measure, process, wait_ready, wait_settled
from loadtest.processes import consecutive_free_ports
from loadtest.replica.text import TOKENIZER

PEERS = Path.home() / ".cache/kvgate/peers"
REFERENCE = "vllm-router round_robin"


@dataclass(frozen=True, slots=True)
class Conversations(Case):
    """Each client goes on with a conversation of its own: what it said last ends in a number that was never sent."""

    def requests(self, port: int, client: int) -> Iterator[bytes]:
        whole = self.request(port).replace(b"lorem ipsum", b"lorem %05d" % client, 1)
        end = whole.rfind(b'"}]}')
        for turn in count(client, self.clients):
            yield b"%b%010d%b" % (whole[: end - 10], turn, whole[end:])


CASES = (
    Conversations("2KB", 64, 2_048),
    Conversations("32KB", 64, 32_768),
    Conversations("1x2KB", 1, 2_048),
    Conversations("16x2KB", 16, 2_048),
    Case("64x20ms", 64, 2_048, (1_000, 20)),
    Case("256x20ms", 256, 2_048, (1_000, 20)),
    Case("64xunpaced", 64, 2_048, (2_000, 0)),
)


def routers(folder: Path, replica: str) -> Iterator[tuple[str, Sequence[str], int]]:
    """Name, command and port of each router that is here. folder: for configuration. replica: its URL."""
    for policy in ("round-robin", "kv-aware"):
        port, config = consecutive_free_ports(1), folder / f"{policy}.yaml"
        models = {"bench": {"tokenizer": str(TOKENIZER)}}
        config.write_text(json.dumps({"policy": policy, "replicas": [{"url": replica}], "models": models}))
        command = [sys.executable, "-m", "gateway", "serve", "--config", str(config), "--host", "127.0.0.1"]
        yield f"kvgate {policy}", [*command, "--port", str(port)], port
    for program, launch in (("vllm-router", ()), ("sglang-router", ("launch",)), ("smg", ("launch",))):
        path = PEERS / "bin" / program
        if not path.exists():
            print(f"{program} is left out: it is not in {PEERS}", file=sys.stderr)
            continue
        for policy in ("round_robin", "cache_aware"):
            port = consecutive_free_ports(1)
            arguments = ["--worker-urls", replica, "--policy", policy, "--host", "127.0.0.1", "--port", str(port)]
            quiet = ["--log-level", "error", "--prometheus-port", str(consecutive_free_ports(1))]
            yield f"{program} {policy}", [str(path), *launch, *arguments, *quiet], port


def line(case: Case, router: str, through: Sample, direct: Sample, pid: int) -> dict[str, object]:
    """One router's figures for one case."""
    streams = case.stream is not None
    done = through.chunks if streams else through.answers
    if not done:
        return {"bench": "peers", "case": case.name, "router": router, "skipped": "it does not answer as asked"}
    figures: dict[str, object] = {
        "bench": "peers",
        "case": case.name,
        "router": router,
        "cpu_us": round(through.cpu / done * 1e6, 1),
        "per_s": round(done / through.seconds),
        "rss_mb": memory(pid),
    }
    if case.clients <= 16:
        without = case.clients * direct.seconds / max(1, direct.answers)
        figures["added_ms"] = round((case.clients * through.seconds / max(1, through.answers) - without) * 1e3, 3)
    if through.failures:
        figures["failures"] = through.failures
    return figures


def memory(pid: int) -> int:
    """Resident megabytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


def main() -> None:
    """Run the cases and print their lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES], help="all when not given")
    parser.add_argument("--router", action="append", help="`kvgate round-robin` and so on; all when not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each window measured")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    replica = consecutive_free_ports(1)
    with TemporaryDirectory() as folder, ExitStack() as running:
        running.enter_context(process((sys.executable, "-m", "bench.upstream", "--port", str(replica)), cores[-1]))
        wait_ready(replica)
        started = []
        for name, command, port in routers(Path(folder), f"http://127.0.0.1:{replica}"):
            if args.router is not None and name not in args.router:
                continue
            pid = running.enter_context(process(command, cores[0], output=DEVNULL))
            try:
                wait_ready(port)
            except TimeoutError:
                print(f"{name} is left out: it answers no chat completion", file=sys.stderr)
                continue
            if name.startswith("kvgate"):
                wait_settled(port)
            started.append((name, port, pid))
        for case in CASES:
            if args.case is not None and case.name not in args.case:
                continue
            direct = Sample()
            samples = [Sample() for _ in started]
            for _ in range(args.rounds):
                uvloop.run(measure(direct, replica, case, 0.2, args.seconds / 2, None))
                for sample, (_, port, pid) in zip(samples, started, strict=True):
                    uvloop.run(measure(sample, port, case, 0.5, args.seconds, pid))
            lines = [
                line(case, name, sample, direct, pid) for sample, (name, _, pid) in zip(samples, started, strict=True)
            ]
            reference = next(
                (float(str(found["cpu_us"])) for found in lines if found["router"] == REFERENCE and "cpu_us" in found),
                None,
            )
            for found in lines:
                if reference and "cpu_us" in found:
                    ratio = float(str(found["cpu_us"])) / reference
                    found["ratio_to_vllm_router_round_robin"] = round(ratio, 2)
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
