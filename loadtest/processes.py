"""Child processes that a run needs: started, waited for, and ended whatever happens."""

import asyncio
import contextlib
import random
import socket
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence

import httpx

READY_SECONDS = 180.0
"""how long a child may take until it answers"""
STOP_SECONDS = 5.0
"""how long it may take to end by itself"""
SHOWN_CHARACTERS = 2000
"""how much of a child's output a failure shows"""
_POLL_SECONDS = 0.05
_NOT_GIVEN = (10_000, 32_000)
"""ports below those that Linux gives to outgoing connections"""


class ChildFailed(Exception):
    """A child process ended, or did not answer in time. What it wrote is in a note."""


def python(arguments: Sequence[str], ready: Sequence[str]) -> contextlib.AbstractAsyncContextManager[Process]:
    """Run `python ARGUMENTS` within the context, as `child` does."""
    return child([sys.executable, *arguments], ready)


@contextlib.asynccontextmanager
async def child(command: Sequence[str], ready: Sequence[str]) -> AsyncIterator[Process]:
    """Run a command within the context.

    ready: URLs that answer 200 once the child can be used.
    Raises ChildFailed. What fails within the context leaves it with a note of what the child wrote last.
    """
    with tempfile.TemporaryFile() as output:
        try:
            process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
        except OSError as error:
            raise ChildFailed(f"{command[0]}: {error.strerror}") from error
        try:
            await _answering(process, ready)
            yield process
        except Exception as failure:
            output.seek(0)
            written = output.read().decode(errors="replace")[-SHOWN_CHARACTERS:]
            failure.add_note(f"{' '.join(command)} wrote:\n{written}")
            raise
        finally:
            await _stop(process)


async def _answering(child: Process, ready: Sequence[str]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_SECONDS
    async with httpx.AsyncClient() as client:
        for url in ready:
            while not await _ok(client, url):
                if child.returncode is not None:
                    raise ChildFailed(f"ended with status {child.returncode}")
                if loop.time() > deadline:
                    raise ChildFailed(f"no answer from {url} within {READY_SECONDS:.0f} s")
                await asyncio.sleep(_POLL_SECONDS)


async def _ok(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


async def _stop(child: Process) -> None:
    if child.returncode is not None:
        return
    child.terminate()
    try:
        await asyncio.wait_for(child.wait(), STOP_SECONDS)
    except TimeoutError:
        child.kill()
        await child.wait()


def consecutive_free_ports(count: int) -> int:
    """The first of `count` ports in a row that were free just now, and that no outgoing connection is given."""
    while True:
        first = random.randrange(*_NOT_GIVEN)
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
