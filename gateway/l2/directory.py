"""A mounted directory as the place of chunks: one stat for each file, remembered for as long as that can be trusted."""

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from gateway.l2.store import Progress, leading

_REMEMBERED = 65_536
_SAMPLE = 4
"""files read by a read check"""
_BYTES = 64
"""of each"""


class Directory:
    """Asks a file system. Used by several threads: the caches' operations are single ones on dictionaries.

    A file counts if it is as large as a chunk should be: others are still being written, or were cut off. Another mount
    may show a deleted file for a while (Curvine: 1 s), which adds to `positive_age`; new files it shows at once.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float],
        *,
        file_bytes: int | None = None,
        positive_age: float,
        negative_age: float,
    ) -> None:
        """clock: seconds, monotonic.

        file_bytes: the least size of a whole chunk's file; where it is None any that is not empty counts.
        positive_age, negative_age: seconds that an answer is remembered.
        """
        self.path = path
        self.file_bytes = file_bytes
        self._clock = clock
        self._positive_age = positive_age
        self._negative_age = negative_age
        self._present: dict[str, float] = {}
        self._absent: dict[str, float] = {}
        self._latest: deque[str] = deque(maxlen=_SAMPLE)

    def leading(self, chunks: Sequence[Sequence[str]], progress: Progress) -> int:
        """See `Store`."""
        found = leading(len(chunks), lambda index: all(map(self._has, chunks[index])), progress)
        if found:
            self._latest.append(chunks[found - 1][0])
        return found

    def check(self) -> float:
        """See `Store`. A name that nobody uses can't come out of a cache."""
        with suppress(FileNotFoundError):
            os.stat(self.path / f".kvgate-{self._clock()}")
        state = os.statvfs(self.path)
        return 1 - state.f_bavail / state.f_blocks if state.f_blocks else 0.0

    def read(self) -> None:
        """See `Store`. What the kernel has kept of a file says nothing, so it is dropped before."""
        for name in list(self._latest):
            try:
                file = os.open(self.path / name, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.pread(file, _BYTES, 0)
            finally:
                os.close(file)

    def forget(self) -> None:
        """See `Store`."""
        self._present = {}
        self._absent = {}

    def close(self) -> None:
        """See `Store`."""

    def _has(self, name: str) -> bool:
        now = self._clock()
        if self._present.get(name, 0.0) > now:
            return True
        if self._absent.get(name, 0.0) > now:
            return False
        there = self._look(name)
        remembered, age = (self._present, self._positive_age) if there else (self._absent, self._negative_age)
        if len(remembered) >= _REMEMBERED:
            remembered.clear()
        remembered[name] = now + age
        if there:
            self._absent.pop(name, None)
        return there

    def _look(self, name: str) -> bool:
        try:
            size = os.stat(self.path / name).st_size
        except (FileNotFoundError, ValueError):  # the latter for what can't be a name: a client chose the salt
            return False
        except OSError as exc:
            if exc.errno == errno.ENAMETOOLONG:
                return False
            raise
        return size >= max(1, self.file_bytes or 1)
