"""Folders mounted a second time through FUSE, with the cache times of Curvine's client, and with faults."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MISSING = "bindfs, fusermount3, mfusepy or /dev/fuse is missing (Debian: apt-get install fuse3 bindfs)"
DEADLINE = 10.0


def can_mount() -> bool:
    """Whether this machine has what it takes."""
    return shutil.which("bindfs") is not None and os.access("/dev/fuse", os.W_OK)


def can_fail() -> bool:
    """Whether this machine can mount `faulty_fs`."""
    return (
        importlib.util.find_spec("mfusepy") is not None
        and shutil.which("fusermount3") is not None
        and os.access("/dev/fuse", os.W_OK)
    )


@contextmanager
def mounted(source: Path, at: Path) -> Iterator[Path]:
    """Names that were there are seen for a second more, new ones at once."""
    options = "attr_timeout=1,entry_timeout=1,negative_timeout=0"
    with _served(["bindfs", "-f", "-o", options, str(source), str(at)], at):
        yield at


class Faulty:
    """A mount and what is wrong with it."""

    def __init__(self, path: Path, control: Path) -> None:
        self.path = path
        self._control = control

    def fault(self, name: str) -> None:
        """From now on; "" for none."""
        self._control.write_text(name)


@contextmanager
def faulty(source: Path, folder: Path) -> Iterator[Faulty]:
    """`source` mounted below `folder`, to be told of faults."""
    control = folder / "control"
    control.write_text("")
    at = folder / "mount"
    program = Path(__file__).with_name("faulty_fs.py")
    with _served([sys.executable, str(program), str(source), str(at), str(control)], at):
        try:
            yield Faulty(at, control)
        finally:
            control.write_text("")


@contextmanager
def _served(command: Sequence[str], at: Path) -> Iterator[None]:
    at.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr
    try:
        end = time.monotonic() + DEADLINE
        while not os.path.ismount(at):
            assert process.poll() is None, process.stderr.read().decode()
            assert time.monotonic() < end, f"{command[0]} did not mount"
            time.sleep(0.01)
        yield
    finally:
        subprocess.run(["fusermount3", "-u", "-z", at], check=False, capture_output=True)
        process.terminate()
        process.wait(DEADLINE)
        process.stderr.close()
