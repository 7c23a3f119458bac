"""One engine's stream while a gateway owns it, against a real Valkey and the engine's sockets."""

from collections.abc import Callable

from kv_publisher import Publisher
from redis.asyncio import Redis
from shared_gateway import becomes, engine, hash_of, removed, shared_gateway, stored
from told_engine import MODEL, SIZE, chain
from valkey_server import Valkey

from gateway.redis.redis_index import RedisIndex
from routing.types import PrefixMatch

A = engine(1)
TEXT = (1, 2, 3, 4, 5)
CHAIN = chain(TEXT)
Make = Callable[..., Publisher]


async def test_that_an_engine_cannot_be_judged_is_told_again_to_a_redis_that_comes_back_empty(
    server: Valkey, make_publisher: Make
) -> None:
    publisher = make_publisher()
    window = {"group_idx": 1, "kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 4}
    async with shared_gateway(server.url) as one:

        async def up() -> object:
            return one.parts.health.up

        async def told() -> object:
            async with Redis.from_url(server.url) as client:
                record = (await RedisIndex(client, "kvgate:").renew(MODEL, 1, {})).engines.get(A)
            return record is not None and record.unjudged

        one.follow(A, publisher)
        publisher.publish(stored(TEXT), {**stored(TEXT), **window})
        await becomes(told, True)
        assert one.unjudged == {1}, "one that can be judged in memory is not in the shared index"
        server.kill()
        publisher.publish(removed(TEXT))
        await becomes(up, False)
        server.start()
        await becomes(up, True)
        await becomes(told, True)
        assert one.parts.streams.owned() == {A}


async def test_an_engine_of_which_something_cannot_be_written_is_not_told_of_as_it_was(
    server: Valkey, make_publisher: Make
) -> None:
    # No record has room for copies in a group of such a number.
    group = {"group_idx": 300}
    parent, last = hash_of(TEXT[:4]), hash_of(TEXT)
    twin = {"block_hashes": [last], "parent_block_hash": parent, "token_ids": [5] * SIZE}
    publisher = make_publisher()
    async with shared_gateway(server.url) as one:
        one.follow(A, publisher)
        publisher.publish({**stored(TEXT), **group})
        await becomes(lambda: one.match(CHAIN), {A: PrefixMatch(5, 5)})
        publisher.publish({**stored(TEXT), **twin, **group})
        await becomes(lambda: one.match(CHAIN), {})
        publisher.publish({**removed(TEXT), **group}, {**removed(TEXT), **group})
        await becomes(lambda: one.match(CHAIN), {A: PrefixMatch(4, 4)})
