"""Programs under test as processes of their own."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from loadtest.processes import consecutive_free_ports
from loadtest.replica.command import PORTS_PER_REPLICA

DEADLINE = 60.0
"""Seconds that anything here may take; reached only when something is broken."""


@dataclass
class Running:
    """A process that answers HTTP."""

    url: str
    process: asyncio.subprocess.Process
    log: Path
    config: Path | None = None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until the condition holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE
    while not await condition():
        assert loop.time() < end, f"not within {DEADLINE} s: {what}"
        await asyncio.sleep(0.02)


def free_port() -> int:
    """A port that nobody has, and that no connection is given."""
    return consecutive_free_ports(1)


@contextlib.asynccontextmanager
async def process(arguments: list[str], url: str, ready: str, log: Path) -> AsyncIterator[Running]:
    """Runs `python -m gateway ARGUMENTS` until left; entered when `ready` answers 200."""
    with log.open("wb") as out:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway", *arguments, stdout=out, stderr=out
        )
    try:
        async with httpx.AsyncClient() as client:

            async def answers() -> bool:
                assert child.returncode is None, log.read_text()
                with contextlib.suppress(httpx.TransportError):
                    return (await client.get(url + ready)).status_code == 200
                return False

            try:
                await eventually(answers, f"{url}{ready} answers")
            except AssertionError as late:
                late.add_note(log.read_text())
                raise
        yield Running(url, child, log)
    finally:
        if child.returncode is None:
            child.terminate()
        await asyncio.wait_for(child.wait(), DEADLINE)


@contextlib.asynccontextmanager
async def gateway_process(settings: Mapping[str, object], folder: Path, *arguments: str) -> AsyncIterator[Running]:
    """A gateway whose configuration file, in `folder`, says `settings`. arguments: further ones of `serve`."""
    # Operators find each worker at a port of its own, behind the clients'.
    workers = int(arguments[arguments.index("--workers") + 1]) if "--workers" in arguments else 0
    port = consecutive_free_ports(1 + workers)
    file = folder / f"gateway-{port}.yaml"
    file.write_text(yaml.safe_dump({"listen": {"host": "127.0.0.1", "port": port}, **settings}))
    url, log = f"http://127.0.0.1:{port}", folder / f"gateway-{port}.log"
    operators = f"http://127.0.0.1:{port + 1}" if workers else url
    async with process(["serve", "--config", str(file), *arguments], operators, "/readyz", log) as running:
        running.url, running.config = url, file
        yield running


@contextlib.asynccontextmanager
async def replicas_process(count: int, folder: Path, *options: str, ranks: int = 1) -> AsyncIterator[Sequence[str]]:
    """Simulated replicas in one process; gives their URLs."""
    base = consecutive_free_ports(count * (1 + PORTS_PER_REPLICA * ranks))
    urls = [f"http://127.0.0.1:{base + number}" for number in range(count)]
    arguments = ["replica", "--count", str(count), "--port", str(base), "--kv-port", str(base + count), *options]
    arguments += ["--data-parallel-size", str(ranks)]
    async with process(arguments, urls[-1], "/health", folder / f"replicas-{base}.log"):
        yield urls


async def all_joined(gateway: str, count: int) -> None:
    """Wait until the gateway has taken in so many replicas."""
    async with httpx.AsyncClient() as client:

        async def joined() -> bool:
            return len((await client.get(gateway + "/readyz")).json()["replicas"]) == count

        await eventually(joined, f"{count} replicas have joined")
