"""The gateway's own traffic log (`traffic_log` in its settings): what was asked, as salted names of blocks.

Files are read one after the other in the order in which they are given.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from loadtest.traces.trace import Answered, TraceError, TraceRequest


class _Line(msgspec.Struct, gc=False):
    t: float
    """seconds since the epoch"""
    prompt: int
    """tokens"""
    block: int
    """tokens that each name stands for, all before them included"""
    names: list[int]
    output: int | None = None
    policy: str | None = None
    tenant: str = ""
    cached: int | None = None
    predicted: int | None = None
    ttft: float | None = None
    predicted_ttft: float | None = None
    """seconds"""

    def answered(self) -> Answered | None:
        """What came of it; None in a line that tells only what was asked."""
        if self.policy is None:
            return None
        return Answered(self.tenant, self.policy, self.cached, self.predicted, self.ttft, self.predicted_ttft)


def block_size(path: Path) -> int:
    """Tokens of a block, by the first line. Raises OSError or TraceError."""
    for line in _lines(path):
        return line.block
    raise TraceError(f"{path}: empty")


def read(path: Path) -> Iterator[TraceRequest]:
    """One request after the other. Raises OSError, or TraceError where a line is no request or blocks change size."""
    size = None
    for number, line in enumerate(_lines(path), 1):
        size = size or line.block
        if line.block != size:
            raise TraceError(f"{path}:{number}: blocks of {line.block} tokens after {size}")
        yield TraceRequest(line.t, line.prompt, max(1, line.output or 0), line.names, answered=line.answered())


def _lines(path: Path) -> Iterator[_Line]:
    decoder = msgspec.json.Decoder(_Line)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise TraceError(f"{path}:{number}: {error}") from error
