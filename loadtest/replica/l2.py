"""Shared storage as a simulated engine uses it: LMCache's file names, written and read through a folder."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.l2.hashing import in_process_chain
from gateway.l2.keys import Chunks, Memory, Scheme
from gateway.l2.names import InProcess

DEFAULT_CHUNK = 256
"""tokens; LMCache's default"""
HASH = "sha256_cbor"
_PEEK = 16


class Unloadable(Exception):
    """A file is there, and not all of it."""


@dataclass(frozen=True, slots=True)
class FolderSettings:
    """A folder that replicas share, and how fast one of them reads from it."""

    path: Path
    kv_bytes_per_token: int = 57_344
    """Qwen2-7B's"""
    gigabytes_per_second: float = 1.84
    base_ms: float = 5.0
    """that a load takes whatever its length"""
    chunk: int = DEFAULT_CHUNK
    fails: bool = True
    """whether a file that can't be loaded fails the request (vLLM's `kv_load_failure_policy: fail`) or is recomputed"""


class SharedFolder:
    """What one engine does with the folder. Files have their size and no content."""

    def __init__(self, settings: FolderSettings, model: str, writer: str) -> None:
        """model: as vLLM is told. writer: names its temporary folder, as `fs_connector_relative_tmp_dir` does."""
        self.settings = settings
        chain = in_process_chain(HASH, None)
        self._scheme = Scheme(settings.chunk, settings.chunk, chain, InProcess(model), salted=False)
        self._bytes = settings.chunk * settings.kv_bytes_per_token
        self._temporary = settings.path / f"tmp-{writer}"
        self._temporary.mkdir(parents=True, exist_ok=True)

    def find(self, prompt: Sequence[int]) -> int:
        """How many tokens from the first are there: LMCache asks whether files exist, not how large they are."""
        for index, files in enumerate(chunks := self._chunks(prompt)):
            if not all((self.settings.path / name).exists() for name in files):
                return index * self.settings.chunk
        return len(chunks) * self.settings.chunk

    def load(self, prompt: Sequence[int], start: int, end: int) -> float:
        """Read the chunks that tokens `start` to `end` lie in. Returns the milliseconds that it takes.

        Raises Unloadable.
        """
        chunks, size = self._chunks(prompt), self.settings.chunk
        wanted = range(start // size, -(-end // size))
        for index in wanted:
            for name in chunks[index]:
                self._read(self.settings.path / name)
        loaded = len(wanted) * size * self.settings.kv_bytes_per_token
        return self.settings.base_ms + loaded / self.settings.gigabytes_per_second / 1e6

    def store(self, prompt: Sequence[int]) -> None:
        """Write the chunks of a prompt that are not there. Where there is no room, nothing is stored."""
        for files in self._chunks(prompt):
            for name in files:
                if (self.settings.path / name).exists():
                    continue
                temporary = self._temporary / name
                try:
                    with temporary.open("wb") as file:
                        file.truncate(self._bytes)
                    temporary.replace(self.settings.path / name)
                except OSError:
                    return

    def _chunks(self, prompt: Sequence[int]) -> Chunks:
        return Chunks(self._scheme, Memory(), prompt)

    def _read(self, path: Path) -> None:
        try:
            file = os.open(path, os.O_RDONLY)
            try:
                whole = os.fstat(file).st_size >= self._bytes
                os.pread(file, _PEEK, 0)
            finally:
                os.close(file)
        except OSError as exc:
            raise Unloadable(str(path)) from exc
        if not whole:
            raise Unloadable(str(path))
