from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.bounds import Lookup, infinite, pooled_belady, pooled_lru


def lookups(*prompts: str) -> list[Lookup]:
    """One block a letter, one token a block and one token more."""
    return [Lookup(len(prompt) + 1, blocks, blocks) for prompt in prompts for blocks in [[*map(ord, prompt)]]]


def test_an_endless_cache_misses_only_what_is_new() -> None:
    assert infinite(lookups("ab", "abc", "b"), 1) == pytest.approx((2 + 1) / 9)


def test_a_hole_ends_the_run() -> None:
    assert infinite(lookups("a", "c", "abc"), 1) == pytest.approx(1 / 8)


def test_least_recently_used_loses_what_belady_keeps() -> None:
    asked = lookups("a", "b", "c", "a", "b", "c")
    assert pooled_lru(asked, 1, 2) == 0
    assert pooled_belady(asked, 1, 2) == pytest.approx(2 / 12)


def test_of_one_prompt_the_tail_is_evicted_first() -> None:
    assert pooled_lru(lookups("abc", "a"), 1, 1) == pytest.approx(1 / 6)


def best(asked: Sequence[Lookup], capacity: int) -> float:
    """The best hit ratio of single-block prompts, by trying every choice of what to evict."""
    total = sum(lookup.tokens for lookup in asked)
    states: dict[frozenset[int], int] = {frozenset(): 0}
    for lookup in asked:
        (block,) = lookup.wanted
        after: dict[frozenset[int], int] = {}
        for held, hits in states.items():
            hits += block in held
            full = held | {block}
            choices = [full] if len(full) <= capacity else [full - {gone} for gone in full]
            for choice in choices:
                after[choice] = max(after.get(choice, 0), hits)
        states = after
    return max(states.values()) / total


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=12), st.integers(1, 3))
def test_belady_is_the_best_there_is(prompts: list[str], capacity: int) -> None:
    asked = lookups(*prompts)
    assert pooled_belady(asked, 1, capacity) == pytest.approx(best(asked, capacity))


@given(st.lists(st.sampled_from(["".join(path) for n in (1, 2, 3) for path in product("ab", repeat=n)]), min_size=1))
def test_the_bounds_are_in_order_and_meet_where_everything_fits(prompts: list[str]) -> None:
    asked = [
        Lookup(len(prompt) + 1, names, names)
        for prompt in prompts
        for names in [[int.from_bytes(prompt[: end + 1].encode()) for end in range(len(prompt))]]
    ]
    ideal = infinite(asked, 1)
    for capacity in (1, 3, 5):
        assert pooled_lru(asked, 1, capacity) <= pooled_belady(asked, 1, capacity) + 1e-9
        assert pooled_belady(asked, 1, capacity) <= ideal + 1e-9
    assert pooled_lru(asked, 1, 14) == pooled_belady(asked, 1, 14) == ideal
