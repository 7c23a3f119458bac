"""A file system that passes a folder on, and misbehaves when it is told to: `python faulty_fs.py SOURCE MOUNT CONTROL`.

CONTROL is a file that names the fault of the moment; empty for none. Cache times are those of Curvine's client.
"""

import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import mfusepy as fuse

FAULTS = ("eio-stat", "hang-stat", "eio-read", "hang-read", "enospc", "short")
_STAT = (
    "st_mode", "st_size", "st_mtime", "st_atime", "st_ctime", "st_nlink", "st_uid", "st_gid", "st_ino"
)  # fmt: skip


class FaultyFS(fuse.Operations):  # type: ignore[misc]  # the package has no types
    """The folder, and the fault."""

    use_ns = False

    def __init__(self, source: Path, control: Path) -> None:
        self._source = source
        self._control = control

    def getattr(self, path: str, fh: int | None = None) -> dict[str, float]:
        if path != "/":
            self._fail("eio-stat", "hang-stat")
        state = os.lstat(self._at(path))
        found = {name: getattr(state, name) for name in _STAT}
        if path != "/" and self._fault() == "short":
            found["st_size"] //= 2
        return found

    def readdir(self, path: str, fh: int) -> Iterator[str]:
        yield from (".", "..")
        with os.scandir(self._at(path)) as entries:
            for entry in entries:
                yield entry.name

    def statfs(self, path: str) -> dict[str, int]:
        state = os.statvfs(self._source)
        found = {name: getattr(state, name) for name in ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail")}
        if self._fault() == "enospc":
            found["f_bfree"] = found["f_bavail"] = 0
        return found

    def open(self, path: str, flags: int) -> int:
        return os.open(self._at(path), flags)

    def create(self, path: str, mode: int, flags: int = os.O_WRONLY | os.O_CREAT) -> int:
        return os.open(self._at(path), os.O_WRONLY | os.O_CREAT, mode)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        self._fail("eio-read", "hang-read")
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        if self._fault() == "enospc":
            raise fuse.FuseOSError(errno.ENOSPC)
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._at(path), length)
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._at(path))
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(self._at(old), self._at(new))
        return 0

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    def _at(self, path: str) -> str:
        return f"{self._source}{path}"

    def _fault(self) -> str:
        return self._control.read_text()

    def _fail(self, error: str, hang: str) -> None:
        if self._fault() == error:
            raise fuse.FuseOSError(errno.EIO)
        while self._fault() == hang:
            time.sleep(0.02)


def main() -> None:
    """Serve until it is unmounted."""
    source, mount, control = (Path(argument) for argument in sys.argv[1:])
    fuse.FUSE(
        FaultyFS(source, control), str(mount), foreground=True,
        entry_timeout=1, attr_timeout=1, negative_timeout=0,
    )  # fmt: skip


if __name__ == "__main__":
    main()
