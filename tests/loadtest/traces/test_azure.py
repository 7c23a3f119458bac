from pathlib import Path

import pytest

from loadtest.bounds import infinite
from loadtest.traces.azure import load
from loadtest.traces.trace import TraceError

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def test_nothing_is_shared(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text(HEAD + "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:05.9799600,4808,0\n")
    trace = load(path)
    assert [request.arrival for request in trace.requests] == [0, 2]
    assert [request.output_tokens for request in trace.requests] == [10, 1]
    assert infinite(trace.lookups(), trace.block_size) == 0


@pytest.mark.parametrize("bad", ["yesterday,1,2", "2023-11-16 18:17:03.1,one,2", "2023-11-16 18:17:03.1"])
def test_a_row_that_is_no_request_is_named(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "azure.csv"
    path.write_text(HEAD + bad)
    with pytest.raises(TraceError, match=r"csv:2"):
        load(path)
