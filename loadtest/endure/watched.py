"""How much a process takes, over time."""

import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

INTERVAL_SECONDS = 1.0
_PAGE_BYTES = 4096


class Watched:
    """Memory in bytes and open files of a process, sampled every second."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self.memory: list[int] = []
        self.files: list[int] = []

    def sample(self) -> None:
        """Look once."""
        self.memory.append(int((self._folder / "statm").read_text().split()[1]) * _PAGE_BYTES)
        self.files.append(sum(1 for _ in (self._folder / "fd").iterdir()))

    def figures(self) -> Mapping[str, float]:
        """Of the second half of the time: what comes before it is warming up."""
        half = len(self.memory) // 2
        later = self.memory[half:]
        slope = statistics.linear_regression(range(len(later)), later).slope if len(later) > 1 else 0.0
        return {
            "rss_mb_first": round(self.memory[0] / 1e6, 1),
            "rss_mb_half": round(self.memory[half] / 1e6, 1),
            "rss_mb_last": round(self.memory[-1] / 1e6, 1),
            "rss_kb_per_minute": round(slope * 60 / INTERVAL_SECONDS / 1e3, 1),
            "fds_half": self.files[half],
            "fds_last": self.files[-1],
            "fds_most": max(self.files),
        }


@contextlib.asynccontextmanager
async def watched(pid: int) -> AsyncIterator[Watched]:
    """Sample within the context."""
    process = Watched(pid)

    async def look() -> None:
        while True:
            process.sample()
            await asyncio.sleep(INTERVAL_SECONDS)

    looking = asyncio.create_task(look())
    try:
        yield process
    finally:
        looking.cancel()
