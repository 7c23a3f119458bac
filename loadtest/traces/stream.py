"""Requests of any known file, one after the other, so that long ones need not be in memory."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from loadtest.traces import files, mooncake, traffic
from loadtest.traces.trace import TraceError, TraceRequest


def stream(paths: Sequence[Path]) -> tuple[Iterator[TraceRequest], int]:
    """All requests of files of one kind, in the order of `paths`, and the tokens of their blocks.

    Raises OSError or TraceError, also later while it is read.
    """
    first = paths[0]
    if first.suffix in (".csv", ".gz"):
        traces = [files.load(path) for path in paths]
        sizes = {trace.block_size for trace in traces}
        requests = chain.from_iterable(trace.requests for trace in traces)
    elif _is_mooncakes(first):
        sizes = {mooncake.BLOCK_SIZE}
        requests = chain.from_iterable(map(mooncake.read, paths))
    else:
        sizes = {traffic.block_size(path) for path in paths}
        requests = chain.from_iterable(map(traffic.read, paths))
    if len(sizes) > 1:
        raise TraceError(f"blocks of {min(sizes)} and {max(sizes)} tokens can't be mixed")
    return requests, sizes.pop()


def _is_mooncakes(path: Path) -> bool:
    with path.open("rb") as lines:
        head = lines.readline()
    try:
        return "hash_ids" in json.loads(head)
    except (ValueError, TypeError) as error:
        raise TraceError(f"{path}:1: {error}") from error
