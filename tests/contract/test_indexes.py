"""What holds for every index."""

from collections.abc import AsyncIterator, Iterator, Sequence
from random import Random

import pytest
from index_under_test import KINDS, IndexUnderTest, index_under_test, servers
from told_engine import MODEL, SECRET, Text, ToldEngine, chain

from routing.changes import Change, Drop, Put, Wipe
from routing.events import KVEvent
from routing.journal import Journal
from routing.ledger import Ledger
from routing.types import BlockHash, EngineId, PrefixMatch, ReplicaId, Tier

A, B = EngineId(ReplicaId("10.0.0.1:8000"), 0), EngineId(ReplicaId("[fd00::7]:8000"), 1)
CHAIN = [BlockHash(number * 0x0101010101010101) for number in range(6)]
LINEAR, STRIDE = 128, 64
"""blocks: of chains that Redis looks at block by block; from one to the next that it looks at in others"""
STEPS = {"memory": 8_000, "redis": 1_500, "cluster": 500}


@pytest.fixture(params=KINDS, scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, str | None]]:
    with servers(request.param) as url:
        yield request.param, url


@pytest.fixture
async def index(server: tuple[str, str | None]) -> AsyncIterator[IndexUnderTest]:
    async with index_under_test(*server) as index:
        yield index


class Told:
    """An engine whose changes are given, not derived."""

    def __init__(self, index: IndexUnderTest, engine: EngineId) -> None:
        self._index, self._engine = index, engine
        self._ledger = Ledger(SECRET, MODEL, journal=Journal())

    async def says(self, *changes: Change) -> None:
        await self._index.apply(self._engine, self._ledger, changes)


async def test_a_prefix_ends_where_a_block_is_missing(index: IndexUnderTest) -> None:
    await Told(index, A).says(Put(Tier.GPU, [*CHAIN[:2], *CHAIN[3:]]))
    assert await index.match(CHAIN) == {A: PrefixMatch(2, 2)}
    assert await index.match(CHAIN[2:]) == {}


async def test_host_memory_goes_on_where_the_gpu_ends(index: IndexUnderTest) -> None:
    await Told(index, A).says(Put(Tier.GPU, CHAIN[:2]), Put(Tier.CPU, CHAIN[1:5]))
    await Told(index, B).says(Put(Tier.CPU, CHAIN[:1]))
    assert await index.match(CHAIN) == {A: PrefixMatch(2, 5), B: PrefixMatch(0, 1)}
    assert await index.held(A) == (2, 4)


async def test_what_is_dropped_is_gone_and_nothing_else(index: IndexUnderTest) -> None:
    a, b = Told(index, A), Told(index, B)
    await a.says(Put(Tier.GPU, CHAIN))
    await b.says(Put(Tier.GPU, CHAIN))
    await a.says(Drop(Tier.GPU, CHAIN[3:]), Drop(Tier.CPU, CHAIN))
    assert await index.match(CHAIN) == {A: PrefixMatch(3, 3), B: PrefixMatch(6, 6)}
    assert await index.held(A) == (3, 0)


@pytest.mark.parametrize(
    ("wiped", "left"), [(Tier.GPU, PrefixMatch(0, 3)), (Tier.CPU, PrefixMatch(6, 6)), (None, None)]
)
async def test_wiping_a_tier_leaves_the_other(
    index: IndexUnderTest, wiped: Tier | None, left: PrefixMatch | None
) -> None:
    a, b = Told(index, A), Told(index, B)
    await a.says(Put(Tier.GPU, CHAIN), Put(Tier.CPU, CHAIN[:3]))
    await b.says(Put(Tier.GPU, CHAIN[:1]))
    await a.says(Wipe(wiped))
    assert await index.match(CHAIN) == ({A: left} if left else {}) | {B: PrefixMatch(1, 1)}


async def test_an_engine_that_left_is_not_found_and_its_place_is_given_again_only_when_clean(
    index: IndexUnderTest,
) -> None:
    await Told(index, A).says(Put(Tier.GPU, CHAIN))
    await index.forget(A)
    assert await index.match(CHAIN) == {}
    await Told(index, B).says(Put(Tier.GPU, CHAIN[:1]))
    assert await index.match(CHAIN) == {B: PrefixMatch(1, 1)}
    await index.sweep()
    await Told(index, A).says(Put(Tier.GPU, CHAIN[:2]))
    assert await index.match(CHAIN) == {A: PrefixMatch(2, 2), B: PrefixMatch(1, 1)}


@pytest.mark.parametrize("length", [1, 127, 128, 129, 161, 1000])
async def test_change_points_are_exact_at_every_length(index: IndexUnderTest, length: int) -> None:
    random = Random(length)
    blocks = [BlockHash(random.getrandbits(64)) for _ in range(length)]
    depths = {EngineId(ReplicaId(f"r{number}:1"), 0): random.randint(0, length) for number in range(12)}
    for engine, depth in depths.items():
        await Told(index, engine).says(Put(Tier.GPU, blocks[:depth]))
    expected = {engine: PrefixMatch(depth, depth) for engine, depth in depths.items() if depth}
    assert await index.match(blocks) == expected


async def test_gaps_are_seen_in_short_chains_and_where_they_are_as_long_as_a_stride(index: IndexUnderTest) -> None:
    """A shorter one may be missed, in Redis in chains of more than `LINEAR` blocks, in memory of more than 1,024.

    Engines evict what comes last first, so there is nearly never one. Less than there is is never told.
    """
    random = Random(5)
    holders = [EngineId(ReplicaId(f"10.0.0.{number}:8000"), 0) for number in range(5)]
    for _ in range(20):
        length = random.choice((random.randint(1, LINEAR), random.randint(LINEAR + 1, 700)))
        blocks = [BlockHash(random.getrandbits(64)) for _ in range(length)]
        least: dict[EngineId, int] = {}
        seen: set[EngineId] = set()
        for holder in holders:
            end, gap = random.randint(0, length), random.choice((0, random.randint(1, 150)))
            start = random.randint(0, end)
            held = blocks[:start] + blocks[start + gap : end]
            await Told(index, holder).says(Put(Tier.GPU, held))
            least[holder] = start if gap else end
            if not gap or gap >= STRIDE or length <= LINEAR or start + gap >= end:
                seen.add(holder)
        found = await index.match(blocks)
        for holder in holders:
            depth = found.get(holder, PrefixMatch(0, 0)).l0
            assert depth >= least[holder]
            assert depth == least[holder] or holder not in seen


async def test_every_match_of_a_random_history_is_the_truth(
    index: IndexUnderTest, server: tuple[str, str | None]
) -> None:
    random = Random(4)
    texts: list[Text] = [tuple(random.randrange(3) for _ in range(random.randint(1, 7))) for _ in range(60)]
    ids = [EngineId(ReplicaId(f"10.0.0.{number}:8000"), number % 2) for number in range(24)]
    engines = {id: ToldEngine(number) for number, id in enumerate(ids)}
    ledgers = {id: Ledger(SECRET, MODEL, journal=Journal()) for id in ids}
    missed: dict[EngineId, list[KVEvent]] = {}
    """what engines told while nobody followed them"""

    async def tell(id: EngineId, events: Sequence[KVEvent]) -> None:
        await index.apply(id, ledgers[id], [change for event in events for change in ledgers[id].apply(event)])

    for step in range(STEPS[server[0]]):
        id = random.choice(ids)
        what = random.random()
        if id in missed and what < 0.3:
            ledgers[id] = await index.take_over(id, ledgers[id])
            await tell(id, missed.pop(id))
        elif id in missed:
            missed[id] += engines[id].step(random, texts)
        elif what < 0.005:
            await index.forget(id)
            engines[id].restart()
            ledgers[id] = Ledger(SECRET, MODEL, journal=Journal())
        elif what < 0.01:
            engines[id].restart()
            await index.apply(id, ledgers[id], ledgers[id].clear())
        elif what < 0.03:
            await index.crash(id)
            missed[id] = []
        elif what < 0.04:
            await index.sweep()
        else:
            await tell(id, engines[id].step(random, texts))
        if step % 4 == 0:
            text = random.choice(texts)
            depths = {id: engine.depths(text) for id, engine in engines.items() if id not in missed}
            truth = {id: PrefixMatch(*depth) for id, depth in depths.items() if depth[1]}
            assert await index.match(chain(text)) == truth, step
