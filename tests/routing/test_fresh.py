from routing.fresh import FreshRoutes
from routing.types import BlockHash, EngineId, ReplicaId

A, B = EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("b:1"), 0)
CHAIN = [BlockHash(number) for number in range(6)]


def test_a_credit_extends_what_the_engine_holds() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN[2:5], now=10.0)
    assert fresh.extend(A, CHAIN, 2, now=10.5) == 5
    assert fresh.extend(B, CHAIN, 2, now=10.5) == 2


def test_a_credit_that_does_not_join_on_counts_for_nothing() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN[2:5], now=10.0)
    assert fresh.extend(A, CHAIN, 1, now=10.5) == 1


def test_a_credit_ends_by_itself() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN, now=10.0)
    assert fresh.extend(A, CHAIN, 0, now=11.9) == 6
    assert fresh.extend(A, CHAIN, 0, now=12.0) == 0


def test_a_second_credit_lasts_from_its_own_time() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN, now=10.0)
    fresh.credit(A, CHAIN[:3], now=11.5)
    fresh.credit(B, CHAIN[:1], now=12.5)
    assert fresh.extend(A, CHAIN, 0, now=13.0) == 3


def test_what_events_have_spoken_of_is_no_longer_credited() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN, now=10.0)
    fresh.settle(A, CHAIN[2:4])
    fresh.settle(B, CHAIN)
    assert fresh.extend(A, CHAIN, 0, now=10.1) == 2
    fresh.credit(A, CHAIN[2:4], now=12.5)
    assert fresh.extend(A, CHAIN, 2, now=12.6) == 4


def test_an_engine_that_left_has_no_credit_even_after_it_comes_back() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN, now=10.0)
    fresh.forget(A)
    assert fresh.extend(A, CHAIN, 0, now=10.1) == 0
    fresh.credit(A, CHAIN[:1], now=11.0)
    assert fresh.extend(A, CHAIN, 0, now=12.1) == 1
