import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.traces.trace import Runs, Trace, TraceRequest

TRACE = Trace(
    "made",
    4,
    [
        TraceRequest(5, 8, 2, [1, 2]),
        TraceRequest(6, 40, 2, [3] * 10),
        TraceRequest(8, 12, 2, [1, 2, 4], follows=0, pause=1.0),
        TraceRequest(9, 16, 2, [1, 2, 4, 5], follows=2, pause=2.0),
    ],
)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)), max_size=5), st.integers(0, 40))
def test_runs_are_the_list_that_they_stand_for(runs: list[tuple[int, int]], cut: int) -> None:
    ids = [first + step for first, count in runs for step in range(count)]
    made = Runs([range(first, first + count) for first, count in runs])
    assert list(made) == ids
    assert [made[index] for index in range(len(made))] == ids
    assert list(made[:cut]) == ids[:cut]
    assert len(made[:cut]) == len(ids[:cut])
    with pytest.raises(IndexError):
        made[len(ids)]


def test_a_part_begins_at_zero_and_keeps_who_follows_whom() -> None:
    part = TRACE.part(1, 3)
    assert [request.arrival for request in part.requests] == [0, 2, 3]
    assert [request.follows for request in part.requests] == [None, None, 1]
    assert TRACE.part(3, 9).requests[0].follows is None
    assert TRACE.part(9, 9).seconds == 0


def test_requests_too_long_for_a_model_are_left_out() -> None:
    short = TRACE.up_to(18)
    assert [request.prompt_tokens for request in short.requests] == [8, 12, 16]
    assert [request.follows for request in short.requests] == [None, 0, 1]


def test_compression_moves_arrivals_and_pauses_together() -> None:
    fast = TRACE.compressed(2)
    assert fast.seconds == TRACE.seconds / 2
    assert [request.pause for request in fast.requests] == [0, 0, 0.5, 1.0]
