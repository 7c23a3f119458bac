from hypothesis import given
from hypothesis import strategies as st

from routing.seen import Seen
from routing.types import BlockHash


def test_a_prefix_is_what_was_in_prompts_before() -> None:
    seen, blocks = Seen(100), [BlockHash(n) for n in range(6)]
    assert seen.prefix(blocks) == 0
    seen.record(blocks[:4])
    assert (seen.prefix(blocks), seen.prefix(blocks[:2]), seen.prefix(blocks[5:])) == (4, 2, 0)


def test_the_longest_unused_are_forgotten_some_at_a_time() -> None:
    seen = Seen(12, generations=4)
    for number in range(30):
        seen.record([BlockHash(number)])
    assert [number for number in range(30) if seen.prefix([BlockHash(number)])] == list(range(21, 30))


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), max_size=40))
def test_as_far_as_it_was_asked_before_whatever_came_between(prompts: list[list[int]]) -> None:
    seen, generations = Seen(24, generations=3), [set[BlockHash]()]
    for prompt in prompts:
        # A block stands for all that comes before it, as the hash of a chain does.
        blocks = [BlockHash(hash(tuple(prompt[: depth + 1]))) for depth in range(len(prompt))]
        known = [any(block in generation for generation in generations) for block in blocks]
        assert seen.prefix(blocks) == (known.index(False) if False in known else len(blocks))
        seen.record(blocks)
        generations[0].update(blocks)
        if len(generations[0]) >= 8:
            generations = [set(), *generations[:2]]
