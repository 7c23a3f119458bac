"""Gateways and replicas as processes that are killed, stopped and started again on their ports."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

BOOT = 180.0
"""seconds that a process may take until it answers, on a machine that does much else"""


@dataclass
class Child:
    """`python -m gateway ARGUMENTS`. killed, gone: when that was done last and when it was over, by the loop's clock.

    In between it still takes connections.
    """

    name: str
    arguments: Sequence[str]
    url: str
    ready: str
    log: Path
    killed: float = float("-inf")
    gone: float = float("-inf")
    back: float = float("-inf")
    """when it answered again"""
    sizes: list[tuple[float, int]] = field(default_factory=list)
    """when it was weighed since it was started last, and bytes of it in RAM"""
    _process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    async def start(self) -> None:
        """Begin, and wait until it answers."""
        with self.log.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway", *self.arguments, stdout=out, stderr=out
            )
        loop = asyncio.get_running_loop()
        end = loop.time() + BOOT
        async with httpx.AsyncClient() as client:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(self.url + self.ready)).is_success:
                        break
                assert self._process.returncode is None, f"{self.name}: {self.log.read_text()}"
                assert loop.time() < end, f"{self.name} does not answer: {self.log.read_text()}"
                await asyncio.sleep(0.05)
        self.back, self.sizes = loop.time(), []

    async def kill(self) -> None:
        """It dies at once."""
        loop = asyncio.get_running_loop()
        self.killed = loop.time()
        self._signal(signal.SIGKILL)
        assert self._process is not None
        await self._process.wait()
        self.gone = loop.time()

    def freeze(self) -> None:
        """It hangs: connections stay and nothing moves."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    async def stop(self) -> None:
        """End, if it runs."""
        if self._process is not None and self._process.returncode is None:
            self.thaw()
            await self.kill()

    def weigh(self) -> None:
        """Note how much it has in RAM."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/statm").read_text().split()
        self.sizes.append((asyncio.get_running_loop().time(), int(fields[1]) * 4096))

    def growth(self, warm: float) -> tuple[float, int]:
        """For how many seconds it was weighed, and by how many bytes it grew. warm: seconds after its start that don't
        count."""
        counted = [size for size in self.sizes if size[0] > self.back + warm]
        return (counted[-1][0] - counted[0][0], counted[-1][1] - counted[0][1]) if counted else (0.0, 0)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
