from itertools import count

from gateway.redis.health import FAILURES, Health


def health() -> Health:
    seconds = count()
    return Health(lambda: float(next(seconds)))


def test_it_takes_several_slow_exchanges_in_a_row_to_give_redis_up() -> None:
    state = health()
    for _ in range(FAILURES - 1):
        state.failed("slow")
    state.worked()
    for _ in range(FAILURES - 1):
        state.failed("slow")
    assert state.up
    state.failed("slow")
    assert not state.up
    assert (state.outages, state.reason) == (1, "slow")


def test_a_refused_connection_is_enough() -> None:
    state = health()
    state.failed("refused", surely=True)
    assert not state.up


def test_an_outage_is_counted_once_and_is_over_with_the_first_answer() -> None:
    state = health()
    for _ in range(5):
        state.failed("refused", surely=True)
    state.worked()
    assert state.up
    assert state.outages == 1
    assert state.recent(100.0)
    assert not state.recent(0.5)


def test_what_was_never_down_was_not_down_lately() -> None:
    assert not health().recent(100.0)
