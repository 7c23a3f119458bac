import pytest

from routing.fleet import Lease
from routing.load import NOTHING_UNDER_WAY, EngineLoad, Report, UnderWay

TOLD = UnderWay(in_flight=3, pending=1, pending_tokens=500, pending_pairs=125_000, context_tokens=2000)


def test_what_other_gateways_have_there_counts_like_ours() -> None:
    load = EngineLoad()
    Lease(load, 1000, 400, 0.0)
    ours = load.ours
    load.hear(TOLD)
    assert (load.in_flight, load.pending, load.pending_tokens, load.running) == (4, 2, 900, 2)
    assert (load.pending_pairs, load.context_tokens) == (ours.pending_pairs + 125_000, 2000)
    assert load.ours == ours == UnderWay(1, 1, 400, 320_000, 0)


def test_what_they_tell_next_takes_the_place_of_what_they_told() -> None:
    load = EngineLoad()
    lease = Lease(load, 1000, 400, 0.0)
    load.hear(TOLD)
    load.hear(TOLD._replace(in_flight=1, context_tokens=0))
    assert (load.in_flight, load.context_tokens) == (2, 0)
    lease.release(0.0)
    load.hear(NOTHING_UNDER_WAY)
    assert load == EngineLoad(begun=load.begun)


def test_requests_they_told_of_are_not_taken_for_strangers_in_a_report() -> None:
    load = EngineLoad()
    load.hear(TOLD)
    mark = load.mark()
    load.observe(Report(running=2, waiting=1), mark)
    assert (load.others_running, load.others_waiting) == (0, 0)
    load.observe(Report(running=4, waiting=1), mark)
    assert load.others_running + load.others_waiting == 2


def test_requests_they_told_of_while_the_report_was_made_are_not_taken_for_strangers() -> None:
    load = EngineLoad()
    mark = load.mark()
    load.hear(TOLD)
    load.hear(NOTHING_UNDER_WAY)
    load.observe(Report(running=3), mark)
    assert load.others_running == 0


def test_memory_held_is_what_the_engine_reported_and_what_came_and_went_since() -> None:
    load = EngineLoad(residence=20.0)

    def over() -> float:
        """Tokens beyond a cache of 10,000 if 10,000 more came."""
        return load.until_it_fits(10_000, 10_000) / 20.0 * 10_000

    going, staying = (Lease(load, 3000, 3000, 0.0) for _ in range(2))
    for lease in (going, staying):
        lease.first_token(0.0)
    assert over() == pytest.approx(6000), "no report yet"
    load.observe(Report(running=2, kv_usage=0.4), load.mark())
    assert over() == pytest.approx(4000), "they share a beginning"
    going.release(20.0)
    assert over() == pytest.approx(1000)
    Lease(load, 500, 500, 0.0).first_token(20.0)
    assert over() == pytest.approx(1500)


def test_residence_follows_how_long_requests_stay_after_their_first_token() -> None:
    load = EngineLoad()
    refused = Lease(load, 10, 10, 0.0)
    refused.release(50.0)
    assert load.residence == 0.0
    for seconds in [4.0, *[8.0] * 100]:
        lease = Lease(load, 10, 10, 0.0)
        lease.first_token(100.0)
        lease.release(100.0 + seconds)
        lease.release(1000.0)
        assert 4.0 <= load.residence <= 8.0
    assert load.residence == pytest.approx(8.0, rel=0.01)
