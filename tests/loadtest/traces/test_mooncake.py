from pathlib import Path

import pytest

from loadtest.traces.mooncake import load
from loadtest.traces.trace import TraceError

LINE = '{"timestamp": %d, "input_length": %d, "output_length": 5, "hash_ids": %s}\n'


def test_a_request_reuses_full_blocks_but_never_its_last_token(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(LINE % (0, 1300, [0, 1, 2]) + LINE % (1500, 1024, [0, 3]))
    trace = load(path)
    first, second = trace.lookups()
    assert (first.wanted, first.kept) == ([0, 1], [0, 1])
    assert (second.wanted, second.kept) == ([0], [0, 3])
    last = trace.requests[1]
    assert (last.arrival, last.prompt_tokens, last.output_tokens) == (1.5, 1024, 5)


@pytest.mark.parametrize("bad", ["{", '{"timestamp": 1}', "[]", "\xff"])
def test_a_line_that_is_no_request_is_named(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(LINE % (0, 10, [0]) + bad, encoding="latin-1")
    with pytest.raises(TraceError, match=r"trace\.jsonl:2"):
        load(path)
