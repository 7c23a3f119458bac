"""Two looks find what many would, and most of a long chain is never sent."""

from collections.abc import Sequence
from random import Random

import pytest

from gateway.redis.looks import STRIDE, Look, Search, Seen, Table
from routing.prefixes import BITS
from routing.types import BlockHash, EngineId, PrefixMatch, ReplicaId

ENGINES = {slot: EngineId(ReplicaId(f"10.0.0.{slot}:8000"), 0) for slot in range(8)}
TABLE = Table(b"1", ENGINES, sum(1 << slot * BITS for slot in ENGINES))


class Holders:
    """What Redis does, block by block. depths: of a chain, how many blocks each slot holds from its begin."""

    def __init__(self, chain: Sequence[BlockHash], depths: Sequence[int]) -> None:
        self.depths = list(depths)
        self._depth = {block: depth for depth, block in enumerate(chain)}
        self.asked: list[int] = []

    def see(self, look: Look) -> Seen:
        self.asked.append(len(look.blocks))
        masks = [self._mask(block) for block in look.blocks]
        runs = [(at, mask) for at, mask in enumerate(masks) if at == 0 or mask != masks[at - 1]]
        return Seen(runs, TABLE)

    def truth(self) -> dict[EngineId, PrefixMatch]:
        return {ENGINES[slot]: PrefixMatch(depth, depth) for slot, depth in enumerate(self.depths) if depth}

    def _mask(self, block: BlockHash) -> int:
        return sum(1 << slot * BITS for slot, depth in enumerate(self.depths) if self._depth[block] < depth)


def a_chain(random: Random, length: int) -> Sequence[BlockHash]:
    return [BlockHash(random.getrandbits(64)) for _ in range(length)]


@pytest.mark.parametrize("length", [1, 128, 129, 512, 513, 577, 578, 2000, 4097])
def test_every_depth_is_found_by_two_looks(length: int) -> None:
    random = Random(length)
    for _ in range(30):
        chain = a_chain(random, length)
        holders = Holders(chain, [random.choice((0, length, random.randint(0, length))) for _ in ENGINES])
        search = Search(chain)
        while search.look:
            search.saw(holders.see(search.look))
        assert search.found == holders.truth()
        assert len(holders.asked) <= 2


def test_of_a_long_chain_with_few_holders_little_is_asked() -> None:
    chain = a_chain(Random(1), 8000)
    holders = Holders(chain, [2000, 2000, 5000])
    search = Search(chain)
    while search.look:
        search.saw(holders.see(search.look))
    assert sum(holders.asked) <= 8000 / STRIDE + 1 + 2 * STRIDE + 1


def test_what_is_evicted_between_two_looks_is_told_as_it_was_or_as_it_is() -> None:
    random = Random(2)
    for _ in range(40):
        chain = a_chain(random, random.randint(513, 3000))
        holders = Holders(chain, [random.randint(0, len(chain)) for _ in ENGINES])
        search, before = Search(chain), holders.truth()
        while search.look:
            seen = holders.see(search.look)
            holders.depths = [random.choice((depth, random.randint(0, depth))) for depth in holders.depths]
            search.saw(seen)
        assert all(match.l0 <= before[engine].l0 for engine, match in search.found.items())


def test_an_empty_chain_is_held_by_nobody() -> None:
    search = Search([])
    assert (search.look, search.found) == (None, {})
