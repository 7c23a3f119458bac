from routing.seen import Seen
from routing.types import BlockHash


def test_a_prefix_is_what_was_in_prompts_before() -> None:
    seen, blocks = Seen(100), [BlockHash(n) for n in range(6)]
    assert seen.prefix(blocks) == 0
    seen.record(blocks[:4])
    assert (seen.prefix(blocks), seen.prefix(blocks[:2]), seen.prefix(blocks[5:])) == (4, 2, 0)


def test_the_longest_unused_half_is_forgotten() -> None:
    seen = Seen(10)
    for number in range(12):
        seen.record([BlockHash(number)])
    assert sum(seen.prefix([BlockHash(number)]) for number in range(12)) <= 10
    assert seen.prefix([BlockHash(11)]) == 1
    assert seen.prefix([BlockHash(0)]) == 0
