"""Whether the files that engines store could have been made with the settings; if none could, which setting differs."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

from gateway.config.l2 import SharedModel
from gateway.l2.hashing import hex_of

LOOKED_AT = 200
"""files that are judged: the newest ..."""
_SEEN = 4096
"""... of so many that the folder names first; to list a million takes too long"""
_NAMES = {
    "lmcache": re.compile(
        r"(?P<legacy>vllm@)?(?P<model>.+?)@(?P<world>\d+)@\d+@(?P<hash>-?[0-9a-f]+)@(?P<dtype>[a-z]\w*)"
        r"(?:@(?P<layer>\d+))?(?P<tags>(?:@[^@%]+%[^@]*)*)\.data"
    ),
    "lmcache-server": re.compile(
        r"(?P<model>.+?)@0x(?P<world>[0-9a-f]{2})[0-9a-f]{6}@[0-9a-f]+@(?P<hash>[0-9a-f]{2,})(?:@[^@]+)?\.data"
    ),
}
_CHUNKS = (16, 32, 64, 128, 256, 512, 1024)
_HASHES: Mapping[str, Sequence[str]] = {
    "lmcache": ("builtin", "sha256_cbor", "sha256"),
    "lmcache-server": ("blake3", "sha256_cbor"),
}


class StoredFile(NamedTuple):
    """A file as it lies there."""

    name: str
    size: int


def newest_files(path: Path) -> Sequence[StoredFile]:
    """Some of the newest files. Blocks. Raises OSError."""
    with os.scandir(path) as entries:
        found = [
            (state.st_mtime, StoredFile(entry.name, state.st_size))
            for entry in islice(entries, _SEEN)
            if entry.name.endswith(".data")
            for state in (entry.stat(),)
        ]
    found.sort(key=lambda each: each[0], reverse=True)
    return [file for _, file in found[:LOOKED_AT]]


def differing(settings: SharedModel, root: str, files: Sequence[StoredFile], prompts: Sequence[Sequence[int]]) -> str:
    """What is wrong, in words; "" if files could have been made with the settings, or there is too little to tell.

    files: of the shared folder. prompts: the beginnings of some that were served lately.
    """
    if not files:
        return ""
    faults = Counter[tuple[str, ...]](tuple(_faults(settings, root, file)) for file in files)
    if () not in faults:
        fewest = min(faults, key=lambda found: (len(found), -faults[found]))
        return f"0 of the last {len(files)} files could have been made with these settings: {'; '.join(fewest)}"
    return _wrong_hash(settings, files, prompts)


def _faults(settings: SharedModel, root: str, file: StoredFile) -> Iterator[str]:
    """Settings that would have to be different for this file."""
    match = _NAMES[settings.writer].fullmatch(file.name)
    if match is None:
        others = [writer for writer, pattern in _NAMES.items() if pattern.fullmatch(file.name)]
        yield f"writer is {others[0] if others else 'another'}, not {settings.writer}"
        return
    found = match.groupdict()
    model = (settings.model or root).replace("/", "-SEP-")
    if found["model"] != model:
        yield f"model is {found['model'].replace('-SEP-', '/')}, not {settings.model or root}"
    world = int(found["world"], 10 if settings.writer == "lmcache" else 16)
    if world != settings.world:
        yield f"world is {world}, not {settings.world}"
    if settings.writer == "lmcache":
        if found["dtype"] != settings.dtype:
            yield f"dtype is {found['dtype']}, not {settings.dtype}"
        if bool(found["legacy"]) != settings.legacy_names:
            yield f"legacy_names is {str(bool(found['legacy'])).lower()}"
        if (found["layer"] is None) != (settings.layers == 0):
            yield "layers is 0" if found["layer"] is None else "layers is the model's number of layers, not 0"
        if found["tags"] and not settings.tags:
            yield "tags is true"
    if settings.file_bytes is not None and file.size < settings.file_bytes:
        yield f"kv_bytes_per_token times chunk makes {settings.file_bytes} bytes a file, and there are {file.size}"


def _wrong_hash(settings: SharedModel, files: Sequence[StoredFile], prompts: Sequence[Sequence[int]]) -> str:
    """Names fit; do the hashes in them? They do if a prompt's beginning is among them."""
    stored = {match["hash"] for file in files if (match := _NAMES[settings.writer].fullmatch(file.name))}
    if _any_stored(settings, stored, prompts):
        return ""
    seeds = dict.fromkeys((settings.python_hash_seed, None, 0))
    for chunk, algorithm, seed in product(_CHUNKS, _HASHES[settings.writer], seeds):
        changed = {"chunk": chunk, "hash": algorithm, "python_hash_seed": seed}
        try:
            other = SharedModel.model_validate({**settings.model_dump(), **changed})
        except ValueError:
            continue  # a function that needs a seed
        if _any_stored(other, stored, prompts):
            wrong = [f"{name} is {value}" for name, value in changed.items() if getattr(settings, name) != value]
            return f"0 of the last {len(files)} files could have been made with these settings: {'; '.join(wrong)}"
    return ""


def _any_stored(settings: SharedModel, stored: set[str], prompts: Sequence[Sequence[int]]) -> bool:
    chain, chunk = settings.chain(), settings.chunk
    return any(
        hex_of(chain.step(chain.root, prompt[:chunk], None)) in stored for prompt in prompts if len(prompt) >= chunk
    )
