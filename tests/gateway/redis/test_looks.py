"""Three looks find what many would, and most of a long chain is never asked for."""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from gateway.redis.guesses import MOST, STRETCH, Guesses
from gateway.redis.looks import Search, Table, table_of
from routing.prefixes import BITS
from routing.types import BlockHash, EngineId, PrefixMatch, ReplicaId

ENGINES = {slot: EngineId(ReplicaId(f"10.0.0.{slot}:8000"), 0) for slot in range(8)}
TABLE = table_of(b"1", ENGINES)


class Holders:
    """What Redis does, block by block. depths: of a chain, how many blocks each slot holds from its begin."""

    def __init__(self, chain: Sequence[BlockHash], depths: Sequence[int]) -> None:
        self.depths = list(depths)
        self.asked: list[int] = []
        self.guesses = Guesses(MOST)
        self._chain = chain
        self._depth = {block: depth for depth, block in enumerate(chain)}

    def searched(self, between: Callable[[], Table] = lambda: TABLE) -> Search:
        """A search that is over. between: what happens before each look; returns the table of then."""
        search = Search(self._chain, self.guesses)
        while search.blocks:
            table = between()
            self.asked.append(len(search.blocks))
            search.saw(iter([self._bitmap(block) for block in search.blocks]), table)
        return search

    def truth(self) -> dict[EngineId, PrefixMatch]:
        return {ENGINES[slot]: PrefixMatch(depth, depth) for slot, depth in enumerate(self.depths) if depth}

    def _bitmap(self, block: BlockHash) -> bytes | None:
        mask = sum(1 << slot * BITS for slot, depth in enumerate(self.depths) if self._depth[block] < depth)
        return mask.to_bytes(2, "little") if mask else None


def a_chain(random: Random, length: int) -> Sequence[BlockHash]:
    return [BlockHash(random.getrandbits(64)) for _ in range(length)]


@pytest.mark.parametrize("length", [1, 2, 128, 129, 130, 512, 513, 577, 578, 2000, 4097])
def test_every_depth_is_found_by_three_looks(length: int) -> None:
    random = Random(length)
    for _ in range(30):
        chain = a_chain(random, length)
        holders = Holders(chain, [random.choice((0, length, random.randint(0, length))) for _ in ENGINES])
        assert holders.searched().found == holders.truth()
        assert len(holders.asked) <= 3


@pytest.mark.parametrize("length", range(129, 129 + STRETCH + 1))
def test_a_change_in_a_last_stretch_of_any_length_is_found(length: int) -> None:
    chain = a_chain(Random(length), length)
    for depth in range(length - STRETCH, length + 1):
        holders = Holders(chain, [depth])
        assert holders.searched().found == holders.truth()


def test_of_a_long_chain_with_few_holders_little_is_asked() -> None:
    holders = Holders(a_chain(Random(1), 8000), [2000, 2000, 5000])
    assert holders.searched().found == holders.truth()
    assert sum(holders.asked) <= 8000 / STRETCH + 2 + 2 * 14


def test_what_was_found_before_is_found_by_one_look_also_where_the_prompt_goes_on() -> None:
    chain = a_chain(Random(4), 2100)
    before = Holders(chain[:2000], [64, 65, 700, 700, 1999])
    before.searched()
    after = Holders(chain, before.depths)
    after.guesses = before.guesses
    assert after.searched().found == after.truth()
    assert len(after.asked) == 1
    assert after.asked[0] <= 2100 / STRETCH + 2 + 2 * 4


def test_guesses_that_are_wrong_change_nothing_and_are_given_up() -> None:
    random = Random(5)
    chain = a_chain(random, 1500)
    holders = Holders(chain, [0] * len(ENGINES))
    for _ in range(200):
        slot = random.randrange(len(ENGINES))
        holders.depths[slot] = random.choice((0, 1500, random.randint(0, 1500)))
        asked = len(holders.asked)
        assert holders.searched().found == holders.truth()
        assert len(holders.asked) <= asked + 3
    holders.depths = [0] * len(ENGINES)
    holders.searched()
    holders.searched()
    assert holders.asked[-1] == 1500 // STRETCH + 2


def test_an_end_that_has_moved_a_little_is_found() -> None:
    chain = a_chain(Random(8), 300)
    for depth in range(STRETCH, 3 * STRETCH):
        for moved in range(-9, 10):
            holders = Holders(chain, [depth])
            holders.searched()
            holders.depths = [depth + moved]
            assert holders.searched().found == holders.truth()


def test_no_more_is_remembered_than_there_is_room_for() -> None:
    random, guesses = Random(6), Guesses(2)
    chains = [a_chain(random, 200) for _ in range(3)]
    for chain in chains:
        guesses.correct(chain, [], [100, 110])
    assert [guesses.of(chain) for chain in chains] == [[], [100, 110], [100, 110]]


def test_what_changes_between_two_looks_is_told_as_it_was_or_as_it_is() -> None:
    random = Random(2)
    for _ in range(60):
        length = random.randint(513, 3000)
        holders = Holders(a_chain(random, length), [random.randint(0, length) for _ in ENGINES])
        states: list[Sequence[int]] = []

        def change(holders: Holders = holders, states: list[Sequence[int]] = states, length: int = length) -> Table:
            if states:
                holders.depths = [random.choice((depth, random.randint(0, length))) for depth in holders.depths]
            states.append(list(holders.depths))
            return TABLE

        found = holders.searched(change).found
        for slot, depths in enumerate(zip(*states, strict=True)):
            assert min(depths) <= found.get(ENGINES[slot], PrefixMatch(0, 0)).l0 <= max(depths)


def test_whose_slot_is_another_engines_by_the_next_look_is_not_told() -> None:
    """What was seen of the one before must not count for the other, nor the other way round."""
    holders = Holders(a_chain(Random(3), 2000), [700, 1500])
    newcomer = EngineId(ReplicaId("10.0.0.99:8000"), 0)
    tables = iter([TABLE, table_of(b"2", ENGINES | {0: newcomer}), TABLE])
    assert holders.searched(lambda: next(tables)).found == {ENGINES[1]: PrefixMatch(1500, 1500)}


def test_an_empty_chain_is_held_by_nobody() -> None:
    search = Search([], Guesses(MOST))
    assert (search.blocks, search.found) == ([], {})
