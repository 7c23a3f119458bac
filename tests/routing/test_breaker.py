from hypothesis import given
from hypothesis import strategies as st

from routing.breaker import Breaker, BreakerRules, BreakerState, Fault

RULES = BreakerRules(failures=3, connections=2, rest=5.0, longest_rest=15.0)
APPLICATION, CONNECTION = Fault.APPLICATION, Fault.CONNECTION


def opened(at: float = 0.0, fault: Fault = APPLICATION) -> Breaker:
    breaker = Breaker(RULES)
    for request in range(RULES.failures):
        breaker.fail(fault, request, at)
    return breaker


def test_different_requests_that_fail_in_a_row_open_it() -> None:
    breaker = Breaker(RULES)
    assert [breaker.fail(APPLICATION, request, 0.0) for request in (1, 2, 3)] == [False, False, True]
    assert breaker.state(0.0) is BreakerState.OPEN
    assert not breaker.admits(4.9)


def test_one_request_counts_once_however_often_it_fails() -> None:
    breaker = Breaker(RULES)
    assert not any(breaker.fail(APPLICATION, request, 0.0) for request in (1, 2) * 50)
    assert breaker.admits(0.0)


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker(RULES)
    for request in range(100):
        assert not breaker.fail(APPLICATION, request, 0.0)
        breaker.fail(CONNECTION, 0, 0.0)
        breaker.succeed()
    assert breaker.clean


def test_a_replica_that_cant_be_reached_is_left_alone_whoever_asks() -> None:
    breaker = Breaker(RULES)
    assert [breaker.fail(CONNECTION, 7, 0.0) for _ in range(2)] == [False, True]


def test_after_its_rest_it_gets_one_request_at_a_time() -> None:
    breaker = opened()
    assert breaker.state(5.0) is BreakerState.HALF_OPEN
    assert breaker.admits(5.0)
    assert breaker.begin()
    assert not breaker.admits(5.0)
    breaker.end_trial()  # it showed nothing: a 4xx, or the client left
    assert breaker.admits(5.0)


def test_a_trial_that_succeeds_closes_it_as_soon_as_its_answer_begins() -> None:
    breaker = opened()
    assert breaker.begin()
    assert breaker.answer(trial=True)
    assert breaker.state(5.0) is BreakerState.CLOSED
    breaker.end_trial()
    breaker.succeed()
    assert breaker.clean


def test_each_trial_that_fails_doubles_the_rest_up_to_the_longest() -> None:
    breaker = opened()
    now, rests = 5.0, []
    for _ in range(4):
        assert breaker.begin()
        assert breaker.fail(APPLICATION, 1, now, trial=True)
        ready = next(at for at in range(100) if breaker.admits(now + at))
        rests.append(ready)
        now += ready
    assert rests == [10, 15, 15, 15]


def test_what_was_sent_before_it_opened_says_nothing_after() -> None:
    breaker = opened()
    assert not breaker.fail(APPLICATION, 1, 5.0)
    assert not breaker.answer()
    breaker.succeed()
    assert breaker.state(5.0) is BreakerState.HALF_OPEN


def test_one_that_could_not_be_reached_is_tried_when_a_probe_gets_through() -> None:
    breaker = opened(fault=CONNECTION)
    breaker.reachable(1.0)
    assert breaker.admits(1.0)
    assert breaker.begin()
    breaker.fail(CONNECTION, 1, 1.0, trial=True)
    breaker.reachable(2.0)
    assert not breaker.admits(2.0), "probes get through and requests do not"


def test_a_probe_says_nothing_of_one_that_answers_wrongly() -> None:
    breaker = opened()
    breaker.reachable(1.0)
    assert not breaker.admits(1.0)


def test_what_must_not_open_it_does_not() -> None:
    breaker = Breaker(RULES)
    assert not any(breaker.fail(APPLICATION, request, 0.0, spare=True) for request in range(50))
    assert breaker.fail(APPLICATION, 51, 0.0), "what it was spared is not forgotten"


@given(st.lists(st.sampled_from(["fail", "refuse", "succeed", "begin", "answer", "probe", "wait"]), max_size=60))
def test_it_always_comes_to_take_requests_again_and_never_more_than_one_while_on_trial(steps: list[str]) -> None:
    breaker, now, trial = Breaker(RULES), 0.0, False
    for number, step in enumerate(steps):
        match step:
            case "fail" | "refuse":
                breaker.fail(APPLICATION if step == "fail" else CONNECTION, number, now, trial=trial)
                trial = False
            case "succeed":
                breaker.succeed()
            case "begin" if breaker.admits(now):
                trial = breaker.begin()
                assert not trial or not breaker.admits(now)
            case "answer":
                breaker.answer(trial=trial)
            case "probe":
                breaker.reachable(now)
            case "wait":
                now += 4.0
    breaker.end_trial()
    assert breaker.admits(now + RULES.longest_rest)
