"""Mooncake's request traces (FAST '25): one JSON object a line, prompts as ids of 512-token blocks."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from loadtest.traces.trace import Trace, TraceError, TraceRequest

BLOCK_SIZE = 512
"""tokens"""


class _Line(msgspec.Struct, gc=False):
    timestamp: float
    """milliseconds"""
    input_length: int
    output_length: int
    hash_ids: list[int]


def load(path: Path) -> Trace:
    """All requests. Raises OSError or TraceError."""
    return Trace(path.name, BLOCK_SIZE, list(read(path)))


def read(path: Path) -> Iterator[TraceRequest]:
    """One request after the other. Raises OSError or TraceError."""
    decoder = msgspec.json.Decoder(_Line)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                fields = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise TraceError(f"{path}:{number}: {error}") from error
            yield TraceRequest(fields.timestamp / 1000, fields.input_length, fields.output_length, fields.hash_ids)
