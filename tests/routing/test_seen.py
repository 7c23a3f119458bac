from itertools import accumulate, takewhile

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


_PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), max_size=60)


def _chain(prompt: list[int]) -> list[BlockHash]:
    """A block stands for all that comes before it, as the hash of a chain does."""
    return [BlockHash(hash(tuple(prompt[: depth + 1]))) for depth in range(len(prompt))]


@given(_PROMPTS)
def test_as_far_as_it_was_asked_before_while_there_is_room_for_all(prompts: list[list[int]]) -> None:
    seen, asked = Seen(6 * 720, generations=6), set[BlockHash]()
    for blocks in map(_chain, prompts):
        assert seen.prefix(blocks) == sum(block in asked for block in blocks)
        seen.record(blocks)
        asked.update(blocks)


@given(_PROMPTS)
def test_nothing_that_was_not_asked_and_all_that_was_asked_lately(prompts: list[list[int]]) -> None:
    seen, asked = Seen(6 * 20, generations=6), list[list[BlockHash]]()
    for blocks in map(_chain, prompts):
        # What the newer three of six generations hold is kept, and two of them are full: forty blocks at least.
        lately = takewhile(lambda total: total <= 2 * 20, accumulate(len(prompt) for prompt in reversed(asked)))
        recent = asked[len(asked) - len(list(lately)) :]
        least, most = (sum(any(block in prompt for prompt in some) for block in blocks) for some in (recent, asked))
        assert least <= seen.prefix(blocks) <= most
        seen.record(blocks)
        asked.append(blocks)
