from collections.abc import AsyncIterator

import msgspec
import pytest
from membership_world import FOLLOWED_ELSEWHERE, SOURCES, A, World, membership_world, replica, update

from gateway.kv.sources import Source
from routing.ledger import Change, Drop, Put, Wipe
from routing.types import BlockHash, Namespace, PrefixMatch, Tier

CHAIN = [BlockHash(number) for number in range(4)]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with membership_world() as world:
        yield world


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


async def test_an_engine_that_another_gateway_follows_from_now_on_is_as_full_as_that_one_tells(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)]))
    world.membership.take_in(msgspec.structs.replace(update(1, [Wipe(None)]), ended=True))
    [(held, fresh, _)] = world.room.occupancies([A], 0.0)
    assert (held, fresh) == (FOLLOWED_ELSEWHERE, FOLLOWED_ELSEWHERE)


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


async def test_another_server_at_the_same_place_has_its_own_block_size(world: World) -> None:
    world.membership.join(replica(block_size=16), SOURCES)
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)], block_size=768))
    world.membership.leave(A.replica, "test")
    world.membership.join(replica(block_size=32), SOURCES)
    assert world.fleet.namespaces("m") == {Namespace("m", 32)}
    assert world.index.match(CHAIN) == {}


async def test_an_engine_with_groups_that_cant_be_judged_is_not_matched(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)]))
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)], unjudged=frozenset({1})))
    assert world.index.match(CHAIN) == {}


@pytest.mark.parametrize("change", [Put(Tier.GPU, CHAIN[:2]), Drop(Tier.GPU, CHAIN[:2]), Wipe(Tier.GPU)])
async def test_credits_of_a_prompt_that_began_end_when_events_speak_of_their_blocks(
    world: World, change: Change
) -> None:
    world.membership.join(replica(), SOURCES)
    world.fresh.credit(A, CHAIN)
    world.fresh.began(A, CHAIN, now=0.0)
    world.membership.take_in(update(1, [change]))
    assert world.fresh.extend(A, CHAIN, 0, now=0.1) == 0


async def test_an_engine_that_looks_ahead_computes_a_block_of_each_hit_again(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.membership.take_in(update(1, [Put(Tier.GPU, CHAIN)]))
    world.membership.take_in(msgspec.structs.replace(update(1, []), looks_ahead=True))
    world.membership.join(replica(), SOURCES)
    [engine] = world.fleet
    assert engine.recomputed_blocks == 1


async def test_a_hybrid_engine_that_looks_ahead_is_not_matched_and_counts_as_not_judged(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    hybrid = msgspec.structs.replace(update(1, [Put(Tier.GPU, CHAIN)]), windowed_groups=frozenset({1}))
    world.membership.take_in(hybrid)
    assert [stream.unjudged_groups for stream in world.membership.streams()] == [frozenset()]
    world.membership.take_in(msgspec.structs.replace(hybrid, looks_ahead=True))
    assert world.index.match(CHAIN) == {}
    assert [stream.unjudged_groups for stream in world.membership.streams()] == [{1}]


async def test_host_memory_says_nothing_of_credits(world: World) -> None:
    world.membership.join(replica(), SOURCES)
    world.fresh.credit(A, CHAIN)
    world.membership.take_in(update(1, [Put(Tier.CPU, CHAIN), Wipe(Tier.CPU)]))
    assert world.fresh.extend(A, CHAIN, 0, now=0.1) == 4
