import gzip
import json
from pathlib import Path

import pytest

from loadtest.traces.agentic import load
from loadtest.traces.trace import TraceError


def session(*calls: dict[str, object], block_size: int = 64) -> str:
    return json.dumps({"id": "s", "block_size": block_size, "requests": calls}) + "\n"


def call(t: float, tokens: int, rle: list[list[int]], **more: object) -> dict[str, object]:
    return {"t": t, "in": tokens, "out": 7, "think": None, "rle": rle, **more}


def write(folder: Path, text: str) -> Path:
    path = folder / "sessions.jsonl.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_a_session_is_a_closed_loop_and_its_ids_are_its_own(tmp_path: Path) -> None:
    one = session(call(0, 130, [[1, 2]]), call(10, 200, [[1, 2], [9, 1]], think=3.5))
    trace = load(write(tmp_path, one + one))
    assert [request.arrival for request in trace.requests] == [0, 0, 10, 10]
    assert [request.follows for request in trace.requests] == [None, None, 0, 1]
    assert [request.pause for request in trace.requests] == [0, 0, 3.5, 3.5]
    first, other, second, _ = (list(request.blocks) for request in trace.requests)
    assert second[:2] == first
    assert not set(first) & set(other)


def test_sub_agents_are_left_out(tmp_path: Path) -> None:
    agent = {"t": 5, "type": "subagent", "requests": [call(0, 64, [[7, 1]])]}
    trace = load(write(tmp_path, session(call(0, 64, [[1, 1]]), agent, call(9, 64, [[1, 1]], think=1))))
    assert [request.arrival for request in trace.requests] == [0, 9]
    assert trace.requests[1].follows == 0


@pytest.mark.parametrize("bad", ["{", "[]", session(block_size=16)])
def test_a_line_that_is_no_session_is_named(tmp_path: Path, bad: str) -> None:
    with pytest.raises(TraceError, match=r"gz:2"):
        load(write(tmp_path, session(call(0, 64, [[1, 1]])) + bad))
