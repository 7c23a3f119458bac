"""Gateways that share an index, against a real Valkey and engines' sockets."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import cast

import pytest
from kv_publisher import Publisher
from redis.asyncio import Redis
from shared_gateway import SharedGateway, becomes, engine, removed, shared_gateway, stored
from told_engine import MODEL, SECRET, chain
from valkey_server import Valkey

from gateway.redis.names import base
from gateway.redis.redis_index import RedisIndex
from gateway.redis.shares import shares
from gateway.redis.tenure import acquire
from routing.fleet import ModelCard, Replica
from routing.journal import Journal
from routing.ledger import Ledger
from routing.types import PrefixMatch

A = engine(1)
TEXT = (1, 2, 3, 4, 5)
CHAIN = chain(TEXT)
Make = Callable[..., Publisher]


async def is_held(gateway: SharedGateway, blocks: int) -> None:
    await becomes(lambda: gateway.match(CHAIN), {A: PrefixMatch(blocks, blocks)} if blocks else {})


async def test_one_gateway_follows_and_all_of_them_match(server: Valkey, make_publisher: Make) -> None:
    publisher = make_publisher()
    async with shared_gateway(server.url) as one, shared_gateway(server.url) as other:
        for gateway in (one, other):
            gateway.follow(A, publisher)
        publisher.publish(stored(TEXT))
        await is_held(one, 5)
        await is_held(other, 5)
        publisher.publish(removed(TEXT))
        await is_held(one, 4)
        await is_held(other, 4)
        assert len(one.parts.streams.owned()) + len(other.parts.streams.owned()) == 1
        assert publisher.subscribers() == 1


async def test_who_takes_over_goes_on_where_the_other_stopped(server: Valkey, make_publisher: Make) -> None:
    publisher = make_publisher()
    async with shared_gateway(server.url) as one:
        one.follow(A, publisher)
        publisher.publish(stored(TEXT))
        await is_held(one, 5)
    publisher.publish(removed(TEXT))
    publisher.requests.clear()
    # All but the last message that was applied, which proves that the engine is the same, is not there any more.
    async with shared_gateway(server.url) as other:
        other.follow(A, publisher)
        await is_held(other, 4)
        assert publisher.requests[0] == 0, "asked from the message that was applied last"
        publisher.publish(removed(TEXT[:4]))
        await is_held(other, 3)


async def test_a_buffer_that_lost_what_was_missed_clears_and_rebuilds(server: Valkey, make_publisher: Make) -> None:
    publisher = make_publisher()
    async with shared_gateway(server.url) as one:
        one.follow(A, publisher)
        publisher.publish(stored(TEXT))
        await is_held(one, 5)
    publisher.publish(removed(TEXT))
    publisher.publish(stored(TEXT[:2]))
    publisher.buffer.popleft()
    publisher.buffer.popleft()
    async with shared_gateway(server.url) as other:
        other.follow(A, publisher)
        await is_held(other, 2)


async def test_an_engine_that_restarted_meanwhile_is_cleared(server: Valkey, make_publisher: Make) -> None:
    publisher = make_publisher()
    async with shared_gateway(server.url) as one:
        one.follow(A, publisher)
        publisher.publish(stored(TEXT))
        await is_held(one, 5)
    publisher.stop()
    publisher.start()
    publisher.publish(stored(TEXT[:1]))
    async with shared_gateway(server.url) as other:
        other.follow(A, publisher)
        await is_held(other, 1)


async def test_engines_are_shared_out_and_handed_over_on_join_and_leave(server: Valkey, make_publisher: Make) -> None:
    publishers = [make_publisher() for _ in range(6)]

    async def join(stack: AsyncExitStack) -> SharedGateway:
        gateway = await stack.enter_async_context(shared_gateway(server.url))
        for number, publisher in enumerate(publishers):
            gateway.follow(engine(number), publisher)
        return gateway

    async with AsyncExitStack() as first, AsyncExitStack() as second:
        one = await join(first)
        for publisher in publishers:
            publisher.publish(stored(TEXT))
        everything = {engine(number): PrefixMatch(5, 5) for number in range(6)}
        await becomes(lambda: one.match(CHAIN), everything)
        other = await join(second)

        async def counts() -> object:
            return sorted(len(gateway.parts.streams.owned()) for gateway in (one, other))

        await becomes(counts, [3, 3])
        assert not one.parts.streams.owned() & other.parts.streams.owned()
        await becomes(lambda: one.match(CHAIN), everything)
        await becomes(lambda: other.match(CHAIN), everything)
        await first.aclose()
        await becomes(counts, [0, 6])
        await becomes(lambda: other.match(CHAIN), everything)


async def test_an_engine_without_a_replay_endpoint_stays_with_its_owner(server: Valkey, make_publisher: Make) -> None:
    publishers = [make_publisher(replay=False) for _ in range(4)]
    engines = [engine(number) for number in range(4)]
    async with shared_gateway(server.url) as one, shared_gateway(server.url) as other:
        for each, publisher in zip(engines, publishers, strict=True):
            one.follow(each, publisher)
        await becomes(lambda: _owned(one), frozenset(engines))
        for publisher in publishers:
            await becomes(partial(_subscribers, publisher), 1)
            publisher.publish(stored(TEXT))
        everything = {each: PrefixMatch(5, 5) for each in engines}
        await becomes(lambda: one.match(CHAIN), everything)
        for each, publisher in zip(engines, publishers, strict=True):
            other.follow(each, publisher)
        async with Redis.from_url(server.url) as client:
            of_model = base("kvgate:", MODEL)

            async def wanted() -> object:
                return len(await client.keys(f"{of_model}w:*"))

            await becomes(wanted, 2)
            for gateway in cast(list[bytes], await client.zrange("kvgate:gateways", 0, -1)):
                await _rounds(client, gateway.decode(), 3)
        assert one.parts.streams.owned() == frozenset(engines)
        assert await other.match(CHAIN) == everything


async def test_no_match_tells_of_an_engine_until_its_new_owner_has_caught_up(
    server: Valkey, make_publisher: Make
) -> None:
    publisher = make_publisher()
    async with shared_gateway(server.url) as one:
        one.follow(A, publisher)
        publisher.publish(stored(TEXT))
        await is_held(one, 5)
    publisher.answering.clear()
    publisher.publish(removed(TEXT))
    async with shared_gateway(server.url) as other:
        assert await other.match(CHAIN) == {}, "nobody follows the stream"
        other.follow(A, publisher)
        await becomes(lambda: _owned(other), frozenset({A}))
        assert await other.match(CHAIN) == {}, "what it held before is told"
        publisher.answering.set()
        await is_held(other, 4)


async def test_an_engine_that_leaves_while_its_lease_is_asked_for_is_not_followed(
    server: Valkey, make_publisher: Make
) -> None:
    publisher = make_publisher()
    async with shared_gateway(server.url) as one, Redis.from_url(server.url) as client:
        one.follow(engine(2), make_publisher())
        await becomes(lambda: _owned(one), frozenset({engine(2)}))
        one.follow(A, publisher)
        server.pause()
        await asyncio.sleep(0)
        one.parts.streams.unsubscribe(A)
        server.resume()
        await becomes(lambda: _up(one), True)
        assert await client.exists(f"{base('kvgate:', MODEL)}o:{A.replica}/0") == 0
        assert publisher.subscribers() == 0


async def test_who_has_handed_an_engine_over_leaves_the_other_time_to_take_it(
    server: Valkey, make_publisher: Make
) -> None:
    async with shared_gateway(server.url) as one, Redis.from_url(server.url) as client:
        engines = [engine(number) for number in range(4)]
        for each in engines:
            one.follow(each, make_publisher())
        await becomes(lambda: _owned(one), frozenset(engines))
        (name,) = await client.zrange("kvgate:gateways", 0, -1)
        me = cast(bytes, name).decode()
        # So long that the time before it owned them must not count any more.
        await _rounds(client, me, 5)
        # Somebody joins, asks for its share, and is slow to take it.
        await client.zadd("kvgate:gateways", {"slow": 2**50})
        its = {each for each, gateway in shares(engines, ["slow", me]).items() if gateway == "slow"}
        for each in its:
            await client.set(f"{base('kvgate:', MODEL)}w:{each.replica}/0", "slow")
        await becomes(lambda: _owned(one), frozenset(engines) - its)
        await _rounds(client, me, 2)
        assert not one.parts.streams.owned() & its


async def test_a_stale_owner_is_fenced_and_lets_go(server: Valkey, make_publisher: Make) -> None:
    publisher = make_publisher()
    async with shared_gateway(server.url) as one, shared_gateway(server.url) as other:
        one.follow(A, publisher)
        publisher.publish(stored(TEXT))
        await is_held(one, 5)
        other.follow(A, publisher)
        async with Redis.from_url(server.url) as client:
            await client.set(f"{base('kvgate:', MODEL)}o:{A.replica}/0", "somebody 99", px=3000)
        publisher.publish(removed(TEXT))
        await becomes(lambda: _owned(one), frozenset())
        assert await one.match(CHAIN) == {A: PrefixMatch(5, 5)}, "a stale owner wrote"
        # The somebody never was; its lease ends, and one of the two goes on.
        await is_held(other, 4)


async def test_that_an_engine_looks_ahead_is_known_to_all_gateways_and_to_the_next_owner(
    server: Valkey, make_publisher: Make
) -> None:
    publisher = make_publisher()
    async with shared_gateway(server.url) as one, shared_gateway(server.url) as other:
        other.fleet.join(Replica(A.replica, "http://a", (ModelCard(MODEL),)))
        one.follow(A, publisher)
        publisher.publish(stored(TEXT) | {"lookahead_token_ids": [[1]]})
        await is_held(other, 5)

        async def computed_again() -> object:
            [found] = other.fleet
            return found.recomputed_blocks

        other.follow(engine(2), make_publisher())  # whoever follows anything of the model hears of all its engines
        await becomes(computed_again, 1)
    async with Redis.from_url(server.url) as client:
        successor = await acquire(RedisIndex(client, "kvgate:"), MODEL, A, "another", 60_000)
        assert successor is not None
        kept = await successor.load()
        assert kept is not None
        ledger = Ledger(SECRET, MODEL, journal=Journal())
        ledger.restore(kept.books)
        assert ledger.looks_ahead


async def test_an_engine_that_left_leaves_nothing_behind(server: Valkey, make_publisher: Make) -> None:
    publisher = make_publisher()
    async with shared_gateway(server.url) as one, Redis.from_url(server.url) as client:
        one.follow(A, publisher)
        publisher.publish(stored(TEXT))
        await is_held(one, 5)
        one.parts.streams.unsubscribe(A)
        await is_held(one, 0)
        one.follow(engine(2), make_publisher())

        of_model, name = base("kvgate:", MODEL), f"{A.replica}/0"

        async def left() -> object:
            blocks = await client.keys(f"{of_model}b????????")
            return len(blocks), await client.exists(*[f"{of_model}{kind}:{name}" for kind in "nceo"])

        await becomes(left, (0, 0))


async def _rounds(client: Redis, gateway: str, number: int) -> None:
    """Wait until a gateway has said so often that it is there."""
    said = [await client.zscore("kvgate:gateways", gateway)]

    async def times() -> object:
        last = await client.zscore("kvgate:gateways", gateway)
        if last != said[-1]:
            said.append(last)
        return len(said) - 1

    await becomes(times, number)


async def _subscribers(publisher: Publisher) -> object:
    return publisher.subscribers()


async def _owned(gateway: SharedGateway) -> object:
    return gateway.parts.streams.owned()


async def test_redis_that_hangs_costs_no_request_more_than_the_deadline(server: Valkey, make_publisher: Make) -> None:
    publisher = make_publisher()
    async with shared_gateway(server.url) as one:
        one.follow(A, publisher)
        publisher.publish(stored(TEXT))
        await is_held(one, 5)
        server.pause()
        # By what the streams followed here tell, which goes on.
        assert await one.match(CHAIN) == {A: PrefixMatch(5, 5)}
        publisher.publish(removed(TEXT))
        await is_held(one, 4)
        for _ in range(3):
            await one.match(CHAIN)
        assert not one.parts.health.up
        assert one.comes_from() == "local"
        assert one.parts.faults()
        server.resume()
        await becomes(lambda: _up(one), True)
        assert one.comes_from() == "redis"
        await is_held(one, 4)
        publisher.publish(removed(TEXT[:4]))
        await is_held(one, 3)


@pytest.mark.parametrize("others", [0, 1])
async def test_redis_that_comes_back_empty_is_filled_again(server: Valkey, make_publisher: Make, others: int) -> None:
    publisher = make_publisher()
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(shared_gateway(server.url))
        rest = [await stack.enter_async_context(shared_gateway(server.url)) for _ in range(others)]
        one.follow(A, publisher)
        publisher.publish(stored(TEXT))
        await is_held(one, 5)
        for gateway in rest:
            gateway.follow(A, publisher)
        server.kill()
        publisher.publish(removed(TEXT))
        # What is left proves to whom the lease is handed over that the engine is the same, not what was stored.
        publisher.buffer.popleft()
        await becomes(lambda: _up(one), False)
        await is_held(one, 4)
        one.history.record(engine(7), CHAIN[:2], 0.0)
        assert (await one.match(CHAIN))[engine(7)] == PrefixMatch(2, 2), (
            "what was sent counts where nothing else is known"
        )
        server.start()
        await becomes(lambda: _up(one), True)
        await is_held(one, 4)
        for gateway in rest:
            await is_held(gateway, 4)


@pytest.mark.parametrize("others", [0, 1])
async def test_redis_that_comes_back_as_it_was_before_is_put_right_though_no_event_comes_and_no_lease_has_ended(
    server: Valkey, make_publisher: Make, others: int
) -> None:
    # That of which nothing is asked says nothing by itself.
    publisher = make_publisher(replay=False)
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(shared_gateway(server.url, lease=4.0))
        rest = [await stack.enter_async_context(shared_gateway(server.url, lease=4.0)) for _ in range(others)]
        one.follow(A, publisher)
        await becomes(lambda: _subscribers(publisher), 1)
        publisher.publish(stored(TEXT))
        await is_held(one, 5)
        async with Redis.from_url(server.url) as client:
            await client.save()
        publisher.publish(removed(TEXT))
        await is_held(one, 4)
        server.kill()
        server.start()
        await asyncio.to_thread(server.answers)
        for gateway in (one, *rest):
            await becomes(partial(_asked, gateway), {A: PrefixMatch(4, 4)})
        publisher.publish(removed(TEXT[:4]))
        for gateway in (one, *rest):
            await is_held(gateway, 3)
        assert one.parts.streams.owned() == {A}


async def _asked(gateway: SharedGateway) -> object:
    """What Redis says, and nobody else."""
    found = await gateway.match(CHAIN)
    return found if gateway.parts.health.up else None


async def _up(gateway: SharedGateway) -> object:
    return gateway.parts.health.up
