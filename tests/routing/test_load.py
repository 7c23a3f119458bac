from routing.fleet import Lease
from routing.load import NOTHING_UNDER_WAY, EngineLoad, Report, UnderWay

TOLD = UnderWay(in_flight=3, pending=1, pending_tokens=500, pending_pairs=125_000, context_tokens=2000)


def test_what_other_gateways_have_there_counts_like_ours() -> None:
    load = EngineLoad()
    Lease(load, 1000, 400)
    ours = load.ours
    load.hear(TOLD)
    assert (load.in_flight, load.pending, load.pending_tokens, load.running) == (4, 2, 900, 2)
    assert (load.pending_pairs, load.context_tokens) == (ours.pending_pairs + 125_000, 2000)
    assert load.ours == ours == UnderWay(1, 1, 400, 320_000, 0)


def test_what_they_tell_next_takes_the_place_of_what_they_told() -> None:
    load = EngineLoad()
    lease = Lease(load, 1000, 400)
    load.hear(TOLD)
    load.hear(TOLD._replace(in_flight=1, context_tokens=0))
    assert (load.in_flight, load.context_tokens) == (2, 0)
    lease.release()
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
