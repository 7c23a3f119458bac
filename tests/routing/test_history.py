from routing.history import RouteHistory
from routing.types import BlockHash, EngineId, PrefixMatch, ReplicaId

A = EngineId(ReplicaId("a:1"), 0)


def chain(start: int, length: int) -> list[BlockHash]:
    return [BlockHash(number) for number in range(start, start + length)]


def test_what_was_sent_is_remembered() -> None:
    history = RouteHistory(capacity=10, lifetime=60.0)
    history.record(A, chain(0, 4), now=0.0)
    assert history.match(chain(0, 6)) == {A: PrefixMatch(4, 4)}


def test_over_capacity_the_tail_of_the_longest_unused_goes_first() -> None:
    history = RouteHistory(capacity=6, lifetime=60.0)
    history.record(A, chain(0, 4), now=0.0)
    history.record(A, chain(100, 4), now=1.0)
    assert history.match(chain(0, 4)) == {A: PrefixMatch(2, 2)}
    assert history.match(chain(100, 4)) == {A: PrefixMatch(4, 4)}


def test_what_was_not_used_for_its_lifetime_is_forgotten() -> None:
    history = RouteHistory(capacity=100, lifetime=60.0)
    history.record(A, chain(0, 4), now=0.0)
    history.record(A, chain(0, 2), now=50.0)
    history.record(A, chain(100, 1), now=70.0)
    assert history.match(chain(0, 4)) == {A: PrefixMatch(2, 2)}


def test_a_prompt_longer_than_the_capacity_leaves_its_head() -> None:
    history = RouteHistory(capacity=3, lifetime=60.0)
    history.record(A, chain(0, 5), now=0.0)
    assert history.match(chain(0, 5)) == {A: PrefixMatch(3, 3)}


def test_nothing_remains_of_an_engine_that_left() -> None:
    history = RouteHistory(capacity=10, lifetime=60.0)
    history.record(A, chain(0, 4), now=0.0)
    history.forget(A)
    history.forget(A)
    assert history.match(chain(0, 4)) == {}
