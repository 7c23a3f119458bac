"""What relaying costs: the gateway alone on one core, a fake replica and the load on another.

Prints a JSON line per case. `cpu_us_...` is the gateway's CPU time over what it relayed meanwhile. Runs straight to the
replica alternate with those through the gateway, so that a busy machine shows in both. The gateway is measured as it is
shipped: it logs a line for each request, to a file whose end is shown if anything fails.
"""

import argparse
import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import uvloop

from bench.load import Load
from loadtest.processes import consecutive_free_ports

_READY_SECONDS = 60.0
_SHOWN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Case:
    """body_bytes: of each request. stream: chunks, and milliseconds between two; None for whole answers."""

    name: str
    clients: int
    body_bytes: int
    stream: tuple[int, int] | None = None

    def requests(self, port: int, client: int) -> Iterator[bytes]:
        """What a client sends to a port: the same over and over."""
        return repeat(self.request(port))

    def request(self, port: int) -> bytes:
        """The request as it goes on the wire."""
        body: dict[str, object] = {"model": "bench", "messages": [{"role": "user", "content": ""}]}
        if self.stream is not None:
            body |= {"stream": True, "user": f"chunks={self.stream[0]}&ms={self.stream[1]}"}
        missing = self.body_bytes - len(json.dumps(body))
        body["messages"] = [{"role": "user", "content": ("lorem ipsum " * (missing // 12 + 1))[:missing]}]
        data = json.dumps(body).encode()
        return (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
            b"Accept: application/json\r\nContent-Type: application/json\r\n"
            b"User-Agent: bench\r\nAuthorization: Bearer none\r\nContent-Length: %d\r\n\r\n%b"
        ) % (port, len(data), data)


CASES = (
    Case("2KB", 64, 2_048),
    Case("32KB", 64, 32_768),
    Case("64x20ms", 64, 2_048, (1_000, 20)),
    Case("256x20ms", 256, 2_048, (1_000, 20)),
    Case("64xunpaced", 64, 2_048, (2_000, 0)),
)


@dataclass(slots=True)
class Sample:
    """Sums over the windows measured. cpu: seconds, of the process watched."""

    seconds: float = 0.0
    cpu: float = 0.0
    answers: int = 0
    chunks: int = 0
    failures: int = 0


async def measure(sample: Sample, port: int, case: Case, warm_up: float, seconds: float, pid: int | None) -> None:
    """Add one window of a case to `sample`."""
    async with Load(port, partial(case.requests, port), case.clients) as load:
        await asyncio.sleep(warm_up)
        answers, chunks, cpu, started = load.answers, load.chunks, cpu_seconds(pid), time.perf_counter()
        await asyncio.sleep(seconds)
        sample.seconds += time.perf_counter() - started
        sample.cpu += cpu_seconds(pid) - cpu
        sample.answers += load.answers - answers
        sample.chunks += load.chunks - chunks
        sample.failures += load.failures


async def run(case: Case, gateway: int, replica: int, pid: int, rounds: int, seconds: float) -> dict[str, object]:
    """The figures of one case. gateway, replica: ports. pid: of the gateway."""
    through, direct = Sample(), Sample()
    for _ in range(rounds):
        await measure(direct, replica, case, 0.2, seconds / 2, None)
        await measure(through, gateway, case, 0.5, seconds, pid)
    line: dict[str, object] = {"bench": "relay", "case": case.name}
    if case.stream is None:
        line["cpu_us_per_request"] = round(through.cpu / max(1, through.answers) * 1e6, 1)
        line["requests_per_s"] = round(through.answers / through.seconds)
        line["direct_requests_per_s"] = round(direct.answers / direct.seconds)
    else:
        line["cpu_us_per_chunk"] = round(through.cpu / max(1, through.chunks) * 1e6, 2)
        line["chunks_per_s"] = round(through.chunks / through.seconds)
        line["direct_chunks_per_s"] = round(direct.chunks / direct.seconds)
    if through.failures or direct.failures:
        line["failures"] = through.failures + direct.failures
    return line


def cpu_seconds(pid: int | None) -> float:
    """CPU time that a process has used, in user and kernel mode, in all its threads that still run."""
    if pid is None:
        return 0.0
    # Unlike /proc/PID/stat this is no estimate from the clock's ticks.
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


@contextmanager
def process(command: Sequence[str], core: int, output: int | None = None) -> Iterator[int]:
    """Run a command on one core until left, what it prints to `output`. Yields its process id."""
    started = subprocess.Popen(
        command, preexec_fn=lambda: os.sched_setaffinity(0, {core}), stdout=output, stderr=output
    )
    try:
        yield started.pid
    finally:
        started.terminate()
        try:
            started.wait(10)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@contextmanager
def told_on_failure() -> Iterator[IO[bytes]]:
    """A file for what a process prints; its end goes to standard error if the block raises."""
    with TemporaryFile() as file:
        try:
            yield file
        except BaseException:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _SHOWN_BYTES))
            sys.stderr.write(file.read().decode(errors="replace"))
            raise


def wait_ready(port: int) -> None:
    """Wait until a chat completion is answered. Raises TimeoutError."""
    deadline = time.monotonic() + _READY_SECONDS
    body = b'{"model":"bench","messages":[{"role":"user","content":"Hello"}]}'
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    raise TimeoutError(f"nothing answers on port {port}")


def wait_settled(port: int) -> None:
    """Wait until a gateway of ours has loaded all it needs. Raises TimeoutError."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz"):
                return
        except urllib.error.HTTPError:
            time.sleep(0.1)
    raise TimeoutError("the gateway does not get ready")


def main() -> None:
    """Run the cases and print their lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES], help="all when not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each window measured")
    parser.add_argument("--gateway", nargs="+", help="another gateway's command; {replica} and {port} are filled in")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    gateway, replica = consecutive_free_ports(1), consecutive_free_ports(1)
    command = args.gateway or [
        *(sys.executable, "-m", "gateway", "serve", "--host", "127.0.0.1", "--policy", "round-robin"),
        *("--replica", "http://127.0.0.1:{replica}", "--port", "{port}"),
    ]
    command = [part.format(replica=replica, port=gateway) for part in command]
    os.sched_setaffinity(0, {cores[-1]})
    with (
        process((sys.executable, "-m", "bench.upstream", "--port", str(replica)), cores[-1]),
        told_on_failure() as told,
        process(command, cores[0], output=told.fileno()) as pid,
    ):
        wait_ready(replica)
        wait_ready(gateway)
        if args.gateway is None:
            wait_settled(gateway)
        for case in CASES:
            if args.case is None or case.name in args.case:
                line = uvloop.run(run(case, gateway, replica, pid, args.rounds, args.seconds))
                print(json.dumps(line), flush=True)
                if "failures" in line:
                    raise SystemExit(f"{case.name}: {line['failures']} requests failed")


if __name__ == "__main__":
    main()
