from routing.hottest import Hottest
from routing.types import BlockHash


def ends(number: int) -> BlockHash:
    return BlockHash(number)


def asked(hottest: Hottest, end: int, times: int, tokens: int = 100, now: float = 0.0) -> None:
    for _ in range(times):
        hottest.note(ends(end), f"model {end}", None, range(tokens + 50), tokens, now)


def best(hottest: Hottest, now: float = 0.0) -> list[str]:
    return [beginning.model for beginning in hottest.best(10, now)]


def test_what_came_often_is_kept_as_far_as_it_was_in_common() -> None:
    hottest = Hottest(10, 60.0)
    asked(hottest, 1, times=3)
    asked(hottest, 2, times=2)
    (beginning,) = hottest.best(10, 0.0)
    assert (beginning.model, beginning.salt, list(beginning.tokens)) == ("model 1", None, list(range(100)))


def test_what_saves_most_comes_first() -> None:
    hottest = Hottest(10, 60.0)
    asked(hottest, 1, times=5, tokens=100)
    asked(hottest, 2, times=3, tokens=1000)
    asked(hottest, 3, times=9, tokens=100)
    assert best(hottest) == ["model 2", "model 3", "model 1"]
    assert [beginning.model for beginning in hottest.best(1, 0.0)] == ["model 2"]


def test_what_was_asked_long_ago_counts_less() -> None:
    hottest = Hottest(10, 60.0)
    asked(hottest, 1, times=8)
    asked(hottest, 2, times=4, now=120.0)
    assert best(hottest, 120.0) == ["model 2", "model 1"]


def test_what_comes_now_and_then_is_never_kept() -> None:
    hottest = Hottest(10, 60.0)
    for number in range(20):
        asked(hottest, 1, times=1, now=number * 300.0)
    assert best(hottest, 6000.0) == []


def test_the_longest_unasked_makes_room() -> None:
    hottest = Hottest(2, 60.0)
    asked(hottest, 1, times=3)
    asked(hottest, 2, times=3)
    asked(hottest, 1, times=1)
    asked(hottest, 3, times=3)
    assert sorted(best(hottest)) == ["model 1", "model 3"]


def test_tokens_are_bounded_and_their_room_is_used_again() -> None:
    hottest = Hottest(2, 60.0)
    asked(hottest, 1, times=3, tokens=900_000)
    asked(hottest, 2, times=3, tokens=200_000)
    assert best(hottest) == ["model 1"]
    asked(hottest, 3, times=1)
    asked(hottest, 2, times=1, tokens=200_000)
    assert best(hottest) == ["model 2"]
