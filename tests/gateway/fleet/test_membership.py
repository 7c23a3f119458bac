import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from gateway.config import Config
from gateway.fleet.membership import Membership
from gateway.kv.actions import FeedCounters
from gateway.kv.sources import Source
from gateway.kv.subscriber import Subscriber
from gateway.kv.update import Update
from gateway.metrics import Metrics
from gateway.prompt.library import Library
from gateway.relay.origin import Origin
from gateway.relay.pool import Pool
from routing.fleet import Fleet, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.history import RouteHistory
from routing.index import PrefixIndex
from routing.ledger import Change, Drop, Put, Wipe
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch, ReplicaId, Tier

A = EngineId(ReplicaId("127.0.0.1:9"), 0)
CHAIN = [BlockHash(number) for number in range(4)]
SOURCES: Mapping[int, Source] = {0: Source("tcp://127.0.0.1:9", None, "")}


def replica(*, block_size: int = 16, root: str = "/nowhere") -> Replica:
    return Replica(A.replica, "http://127.0.0.1:9", (ModelCard("m", root),), block_size=block_size)


def update(
    generation: int, changes: Sequence[Change], *, block_size: int = 16, unjudged: frozenset[int] = frozenset()
) -> Update:
    return Update(A, generation, changes, block_size, unjudged, FeedCounters())


@dataclass
class World:
    fleet: Fleet
    index: PrefixIndex
    fresh: FreshRoutes
    membership: Membership


@pytest.fixture
async def world() -> AsyncIterator[World]:
    fleet, index, fresh = Fleet(), PrefixIndex(), FreshRoutes(2.0)
    subscriber = Subscriber(asyncio.get_running_loop(), lambda update: None, b"")
    with ThreadPoolExecutor(1) as executor:
        async with asyncio.TaskGroup() as group:
            library = Library(Config(), executor, group)
            membership = Membership(
                fleet,
                index,
                fresh,
                RouteHistory(100, 60.0),
                subscriber,
                library,
                lambda url: Pool(Origin.parse(url)),
                Metrics(),
            )
            yield World(fleet, index, fresh, membership)
            library.close()
    membership.close()
    subscriber.close()


async def test_what_an_engine_tells_is_in_the_index(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)]))
    assert world.index.match(CHAIN) == {A: PrefixMatch(4, 4)}


async def test_nothing_is_known_of_a_replica_that_left_and_late_events_do_not_bring_it_back(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)]))
    world.membership.leave(A.replica, "test")
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)]))
    assert world.index.match(CHAIN) == {}
    assert len(world.fleet) == 0
    assert not list(world.membership.streams())


async def test_events_from_before_a_replica_came_back_are_dropped(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.membership.leave(A.replica, "test")
    world.membership.join(replica(), SOURCES)
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)]))
    assert world.index.match(CHAIN) == {}
    world.membership.take_in(update(2, [Put(Tier.GPU, CHAIN[:1])]))
    assert world.index.match(CHAIN) == {A: PrefixMatch(1, 1)}


async def test_joining_again_unchanged_keeps_what_is_known(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)]))
    world.membership.join(replica(), SOURCES)
    assert world.index.match(CHAIN) == {A: PrefixMatch(4, 4)}


async def test_an_event_stream_that_moved_is_followed_afresh(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)]))
    world.membership.join(replica(), {0: Source("tcp://127.0.0.1:10", None, "")})
    assert world.index.match(CHAIN) == {}


async def test_the_events_block_size_counts_and_outlives_the_next_description(world: World) -> None:
    world.membership.join(replica(block_size=16), SOURCES)
    world.membership.take_in(update(1, [], block_size=768))
    assert world.fleet.namespaces("m") == {Namespace("m", 768)}
    world.membership.join(replica(block_size=16), SOURCES)
    assert world.fleet.namespaces("m") == {Namespace("m", 768)}


async def test_an_engine_with_groups_that_cant_be_judged_is_not_matched(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)]))
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)], unjudged=frozenset({1})))
    assert world.index.match(CHAIN) == {}


@pytest.mark.parametrize("change", [Put(Tier.GPU, CHAIN[:2]), Drop(Tier.GPU, CHAIN[:2]), Wipe(Tier.GPU)])
async def test_credits_end_when_events_speak_of_their_blocks(world: World, change: Change) -> None:
    world.membership.join(replica(), SOURCES)
    world.fresh.credit(A, CHAIN, now=0.0)
    world.membership.take_in(update(1, [change]))
    assert world.fresh.extend(A, CHAIN, 0, now=0.1) == 0


async def test_host_memory_says_nothing_of_credits(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.fresh.credit(A, CHAIN, now=0.0)
    world.membership.take_in(update(1, [Put(Tier.CPU, CHAIN), Wipe(Tier.CPU)]))
    assert world.fresh.extend(A, CHAIN, 0, now=0.1) == 4
