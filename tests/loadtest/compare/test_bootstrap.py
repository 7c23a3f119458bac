from functools import partial
from random import Random

import pytest

from loadtest.compare.bootstrap import Resampled
from loadtest.compare.outcome import Asked, Outcome, good, hit_ratio, max_over_mean, ttft


def outcome(router: str, slower: float, seed: int = 0) -> Outcome:
    random = Random(seed)
    asked = [Asked(number, 100, 50, slower * random.uniform(0.1, 1), 0.01) for number in range(400)]
    return Outcome(router, 0.7, seed, asked, [[10, 30]])


def test_an_interval_holds_its_value_and_narrows_with_requests() -> None:
    few = Resampled({"a": [outcome("a", 1.0)]}).interval("a", partial(ttft, percent=50))
    many = Resampled({"a": [outcome("a", 1.0, seed) for seed in range(9)]}).interval("a", partial(ttft, percent=50))
    assert few.low <= few.value <= few.high
    assert many.high - many.low < few.high - few.low


def test_the_same_requests_are_drawn_for_both_so_a_steady_difference_is_certain() -> None:
    resampled = Resampled({"a": [outcome("a", 1.0)], "b": [outcome("b", 2.0)]})
    ratio = resampled.ratio("a", "b", partial(ttft, percent=90))
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((0.5, 0.5, 0.5))


def test_who_was_not_answered_waits_for_ever_and_is_not_good() -> None:
    asked = [Asked(0, 100, 80, 0.5, 0.01), Asked(1, 100, 0, None, 0.0), Asked(2, 100, 0, 0.5, 0.2)]
    assert hit_ratio(asked) == 0.4
    assert ttft(asked, 90) == float("inf")
    assert good(asked) == pytest.approx(1 / 3)


def test_load_that_is_spread_evenly_is_one() -> None:
    assert max_over_mean(Outcome("a", 1, 0, [], [[1, 3], [3, 1]])) == 1
    assert max_over_mean(Outcome("a", 1, 0, [], [[4, 0]])) == 2
    assert max_over_mean(Outcome("a", 1, 0, [], [[0, 0]])) == 1
