"""A trace file of any known kind."""

from pathlib import Path

from loadtest.traces import agentic, azure, mooncake
from loadtest.traces.trace import Trace


def load(path: Path) -> Trace:
    """Azure's by `.csv`, agents' sessions by `.gz`, else Mooncake's form. Raises OSError or TraceError."""
    if path.suffix == ".csv":
        return azure.load(path)
    if path.suffix == ".gz":
        return agentic.load(path)
    return mooncake.load(path)
