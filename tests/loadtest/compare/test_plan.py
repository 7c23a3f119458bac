import pytest

from loadtest.compare.plan import Fleet, bounds, families, fitting, slices, windows
from loadtest.replica.timing import PROFILES
from loadtest.traces.generate import Mix, generate
from loadtest.traces.trace import Trace, TraceRequest

FLEET = Fleet(4, PROFILES["llama-8b-l40s"])
TRACE = generate("multi-turn", Mix(requests=300), 1)


def test_load_one_is_what_keeps_every_engine_busy_without_reuse() -> None:
    alone = Trace("made", 64, [TraceRequest(float(second), 8192, 1, []) for second in range(10)])
    per_request = FLEET.profile.prefill_ms(8192, 0) / 1000
    assert FLEET.capacity(alone) == pytest.approx(4 / per_request, rel=0.01)


@pytest.mark.parametrize("load", [0.4, 1.2])
def test_a_slice_comes_at_the_pace_of_its_load(load: float) -> None:
    (made,) = slices(windows(TRACE, 1, 200), FLEET, [load], 0.25)
    rate = len(made.trace.requests) / made.trace.seconds
    assert rate == pytest.approx(load * FLEET.capacity(made.trace))
    assert made.warm_up == 50


def test_windows_are_spread_over_the_trace() -> None:
    first, _, last = windows(TRACE, 3, 100)
    assert list(first.requests) == list(TRACE.part(0, 100).requests)
    assert list(last.requests) == list(TRACE.part(200, 100).requests)


def test_families_share_as_the_whole_does() -> None:
    shared = [TraceRequest(float(at), 192, 1, [at % 50, 50 + at % 50, 100 + at]) for at in range(1000)]
    trace = Trace("made", 64, shared)
    for part in families(trace, 3, 300):
        counts = {one.blocks[0]: 0 for one in part.requests}
        for one in part.requests:
            counts[one.blocks[0]] += 1
        assert 100 <= len(part.requests) <= 300
        assert len(counts) < 30
        assert min(counts.values()) >= 15


def test_what_no_replica_can_hold_is_left_out() -> None:
    assert len(fitting(TRACE, FLEET).requests) == 300
    with pytest.raises(ValueError, match="no request fits"):
        fitting(Trace("made", 64, [TraceRequest(0, 200_000, 1, [])]), FLEET)


def test_bounds_are_in_order() -> None:
    (made,) = slices([TRACE], FLEET, [0.7], 0.25)
    found = bounds(made, FLEET)
    assert 0 < found.lru <= found.belady <= found.ideal < 1
