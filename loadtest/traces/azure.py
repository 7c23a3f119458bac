"""Azure's LLM inference traces (2023): arrivals and lengths only, so nothing is shared. The control without reuse."""

import csv
from datetime import datetime
from itertools import count
from pathlib import Path

from loadtest.traces.trace import Runs, Trace, TraceError, TraceRequest

BLOCK_SIZE = 512
"""tokens; the recording has no blocks, so any size will do"""


def load(path: Path) -> Trace:
    """All requests, each with blocks of its own. Raises OSError or TraceError."""
    requests: list[TraceRequest] = []
    begin: datetime | None = None
    ids = count()
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.DictReader(lines), 2):
            try:
                # The seventh digit of the fraction is more than datetime takes.
                at = datetime.fromisoformat(row["TIMESTAMP"][:26])
                prompt, output = int(row["ContextTokens"]), int(row["GeneratedTokens"])
            except (ValueError, KeyError, TypeError) as error:
                raise TraceError(f"{path}:{number}: {type(error).__name__}: {error}") from error
            begin = begin or at
            blocks = -(-prompt // BLOCK_SIZE)
            first = next(ids)
            own = Runs([range(first << 20, (first << 20) + blocks)])
            requests.append(TraceRequest((at - begin).total_seconds(), prompt, max(1, output), own))
    return Trace(path.name, BLOCK_SIZE, requests)
