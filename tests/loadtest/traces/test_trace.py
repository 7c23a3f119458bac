import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.traces.trace import Runs, Trace, TraceError, TraceRequest

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


def test_loops_that_all_begin_together_can_be_begun_one_after_the_other() -> None:
    loops = 6
    together = Trace(
        "made",
        4,
        [TraceRequest(0, 8, 2, [loop]) for loop in range(loops)]
        + [TraceRequest(10, 8, 2, [loop], follows=loop, pause=1.0) for loop in range(loops)]
        + [TraceRequest(20, 8, 2, [loop], follows=loops + loop, pause=1.0) for loop in range(loops)],
    )
    steady = together.staggered(2)  # one every 10 seconds, from when there are two until the last begins
    assert [request.arrival for request in steady.requests] == [*[0.0] * 3, *[10.0] * 3, *[20.0] * 3, *[30.0] * 3]
    for begins in range(4):
        now = steady.requests[3 * begins : 3 * begins + 3]
        assert sorted(request.blocks[0] for request in now) == [begins, begins + 1, begins + 2]
    for request in steady.requests:
        if request.follows is not None:
            before = steady.requests[request.follows]
            assert (before.blocks, before.arrival) == (request.blocks, request.arrival - 10)
    # Two were under way when it begins, and the last four begin in it.
    assert sum(request.follows is None for request in steady.requests) == 6


@pytest.mark.parametrize("at_once", [2, 5])
def test_too_few_loops_to_have_so_many_under_way_are_refused(at_once: int) -> None:
    with pytest.raises(TraceError, match=f"made: 2 sessions are too few to have {at_once}"):
        TRACE.staggered(at_once)
