from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.bounds import Lookup, infinite, pooled_lru
from loadtest.report.curve import Curve
from loadtest.report.distances import StackDistances
from loadtest.report.recency import Recency


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60))
def test_newer_counts_what_a_list_would(uses: list[tuple[int, bool]]) -> None:
    recency, listed = Recency(), list[int]()
    for block, dropped in uses:
        if block in listed:
            assert recency.newer(block) == len(listed) - 1 - listed.index(block)
            listed.remove(block)
            if dropped:
                recency.drop(block)
                continue
        recency.use(block)
        listed.append(block)
    assert len(recency) == len(listed)


def test_slots_are_used_again() -> None:
    recency = Recency()
    for at in range(5000):
        recency.use(at % 7)
    assert [recency.newer((4999 - back) % 7) for back in range(7)] == list(range(7))


def conversations(requests: int, users: int, seed: int) -> list[Lookup]:
    """Chains that grow: each request goes on from where a user was. One block of 10 tokens is everybody's first."""
    random = Random(seed)
    said: dict[int, list[int]] = {}
    made = []
    for number in range(requests):
        user = min(users - 1, int(random.expovariate(4 / users)))
        chain = said.setdefault(user, [0])
        chain += [1 + number * 8 + step for step in range(random.randint(1, 8))]
        if len(chain) > 60:
            said[user] = [0]
        made.append(Lookup(len(chain) * 10 + 5, list(chain), list(chain)))
    return made


def curve_of(lookups: list[Lookup], limit: int, seed: int = 0) -> Curve:
    curve, distances = Curve(10), StackDistances(limit, seed)
    for at, lookup in enumerate(lookups):
        curve.add(lookup.tokens, distances.ask(lookup.wanted, lookup.kept, float(at)))
    return curve


def test_unsampled_curves_are_those_of_a_real_cache() -> None:
    lookups = conversations(1500, 60, 1)
    curve = curve_of(lookups, 1 << 20)
    for blocks in (1, 10, 60, 300, 1000, 3000):
        assert curve.hit_ratio(blocks * 10) == pytest.approx(pooled_lru(lookups, 10, blocks), abs=0.01)
    assert curve.hit_ratio(float("inf")) == pytest.approx(infinite(lookups, 10))


@pytest.mark.parametrize("seed", range(2))
def test_sampled_curves_are_within_two_percent_of_a_real_cache(seed: int) -> None:
    lookups = conversations(4000, 300, 1)
    curve = curve_of(lookups, 2048, seed)
    for blocks in (300, 1000, 3000, 9000):
        assert curve.hit_ratio(blocks * 10) == pytest.approx(pooled_lru(lookups, 10, blocks), abs=0.02)


def test_memory_is_bounded() -> None:
    distances = StackDistances(100)
    for at in range(2000):
        distances.ask([], range(at * 10, at * 10 + 10), float(at))
    assert 0 < distances.rate < 0.02


def test_an_interval_holds_the_ratio_and_joined_stretches_keep_it() -> None:
    lookups = conversations(2500, 60, 1)
    curve = curve_of(lookups, 1 << 20)
    low, high = curve.interval(3000)
    assert low < curve.hit_ratio(3000) < high
    assert curve.hit_ratio(3000) == pytest.approx(pooled_lru(lookups, 10, 300), abs=0.01)


def test_what_others_begin_with_too_is_shared() -> None:
    distances = StackDistances(100)
    for blocks in ([1, 2], [1, 3], [1, 2, 4]):
        distances.ask(blocks, blocks, 0.0)
    assert distances.shared_blocks == 5
