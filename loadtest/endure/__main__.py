"""`make endure SECONDS=600`: one JSON line for each part; the exit status is 1 if an answer was wrong or an error."""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import yaml

from loadtest.endure.parts import dying, idle, load, streams
from loadtest.processes import consecutive_free_ports, python

PARTS = ("load", "dying", "idle", "streams")
STREAM_SECONDS = 30.0
DYING_SECONDS = 120.0
LIFE_SECONDS = 20.0
ENGINE_IDLE_SECONDS = 5.0
"""as uvicorn, and so vLLM, has it"""


async def mortal(number: int, arguments: Sequence[str], url: str) -> None:
    """Run an engine that is killed every 20 seconds and starts again, each at another time."""
    await asyncio.sleep(number * LIFE_SECONDS / 2)
    while True:
        async with python(arguments, [url + "/health"]) as process:
            await asyncio.sleep(LIFE_SECONDS)
            process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def world(part: str) -> AsyncIterator[tuple[int, int]]:
    """A gateway before two engines; gives its port and its process id."""
    engine = ("--idle", str(ENGINE_IDLE_SECONDS)) if part == "idle" else ()
    port = consecutive_free_ports(3)
    urls = [f"http://127.0.0.1:{port + 1 + number}" for number in range(2)]
    settings = {
        "listen": {"host": "127.0.0.1", "port": port}, "policy": "round-robin",
        "replicas": [{"url": url} for url in urls],
    }  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        file = Path(folder) / "gateway.yaml"
        file.write_text(yaml.safe_dump(settings))
        for number, url in enumerate(urls):
            command = ["-m", "loadtest.endure.engine", "--port", str(port + 1 + number), *engine]
            if part == "dying":
                living = asyncio.create_task(mortal(number, command, url))
                stack.push_async_callback(_ended, living)
            else:
                await stack.enter_async_context(python(command, [url + "/health"]))
        serving = ["-m", "gateway", "serve", "--config", str(file)]
        gateway = await stack.enter_async_context(python(serving, [f"http://127.0.0.1:{port}/readyz"]))
        yield port, gateway.pid


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def endure(parts: Sequence[str], seconds: float) -> bool:
    """Run the parts. Returns whether all is well."""
    well = True
    for part in parts:
        async with world(part) as (port, pid):
            found: Mapping[str, object]
            if part == "load":
                found = await load(port, pid, seconds)
            elif part == "dying":
                found = await dying(port, min(seconds, DYING_SECONDS))
            elif part == "idle":
                found = await idle(port)
            else:
                found = await streams(port, pid, STREAM_SECONDS)
        print(json.dumps(found), flush=True)
        well = well and not found["wrong"] and not found["errors"]
    return well


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="of the load")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one")
    arguments = parser.parse_args()
    return 0 if asyncio.run(endure(arguments.part or PARTS, arguments.seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
