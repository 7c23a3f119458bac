"""What a cluster does to the index: a slot that moves key by key, nodes that are gone."""

from collections.abc import Iterator

import pytest
from redis import Redis
from redis.asyncio import RedisCluster
from shared_gateway import engine
from told_engine import MODEL
from valkey_server import Valkey, valkey_cluster

from gateway.redis.batch import Batch
from gateway.redis.redis_index import RedisIndex, RedisIndexError
from gateway.redis.tenure import Tenure, acquire
from routing.changes import Put
from routing.types import BlockHash, PrefixMatch, Tier

A, B = engine(1), engine(2)
CHAIN = [BlockHash(number * 0x0101010101010101) for number in range(6)]
LEASE_MS = 600_000


@pytest.fixture
def nodes() -> Iterator[list[Valkey]]:
    with valkey_cluster() as servers:
        yield list(servers)


async def held(index: RedisIndex) -> Tenure:
    """The lease of A, which holds the chain."""
    tenure = await acquire(index, MODEL, A, "gateway", LEASE_MS)
    assert tenure is not None
    batch = Batch("all")
    batch.add([Put(Tier.GPU, CHAIN)], None, None, lambda tier: frozenset())
    await tenure.apply(batch)
    return tenure


async def test_while_a_slot_moves_nothing_is_told_or_taken_and_then_all_is_as_it_was(nodes: list[Valkey]) -> None:
    async with RedisCluster.from_url(nodes[0].url) as client:
        index = RedisIndex(client, "test:")
        tenure = await held(index)
        slot, owner = client.keyslot(index.base(MODEL)), client.get_node_from_key(index.base(MODEL))
        assert owner is not None
        target = next(node for node in nodes if node.port != owner.port)
        with Redis(port=int(owner.port)) as source, Redis(port=target.port) as other:
            source.set_response_callback("CLUSTER GETKEYSINSLOT", lambda answer, **_: answer)
            other.cluster("SETSLOT", slot, "IMPORTING", source.cluster("MYID"))
            source.cluster("SETSLOT", slot, "MIGRATING", name := other.cluster("MYID"))
            keys = source.cluster("GETKEYSINSLOT", slot, 1000)
            for number, key in enumerate(keys):
                assert source.execute_command("MIGRATE", "127.0.0.1", target.port, key, 0, 5000) == b"OK"
                if number == len(keys) // 2:
                    with pytest.raises(RedisIndexError):
                        await index.renew(MODEL, LEASE_MS, {A: tenure.standing})
                    with pytest.raises(RedisIndexError):
                        await acquire(index, MODEL, B, "gateway", LEASE_MS)
                    with pytest.raises(RedisIndexError):
                        await index.match(MODEL, CHAIN)
            for port in (target.port, int(owner.port)):
                with Redis(port=port) as node:
                    node.cluster("SETSLOT", slot, "NODE", name)
        assert await acquire(index, MODEL, A, "another", LEASE_MS) is None
        assert not (await index.renew(MODEL, LEASE_MS, {A: tenure.standing})).lost
        assert await index.match(MODEL, CHAIN) == {A: PrefixMatch(6, 6)}


async def test_a_cluster_of_which_nothing_is_left_is_a_redis_that_is_down(nodes: list[Valkey]) -> None:
    async with RedisCluster.from_url(nodes[0].url, socket_timeout=1.0) as client:
        index = RedisIndex(client, "test:")
        tenure = await held(index)
        for node in nodes:
            node.kill()
        for _ in range(2):
            # The library first finds a connection broken, then no node at all, which it says in other ways.
            with pytest.raises(RedisIndexError):
                await tenure.apply(Batch())
            with pytest.raises(RedisIndexError):
                await index.match(MODEL, CHAIN)
            with pytest.raises(RedisIndexError):
                await index.gateways("gateway", LEASE_MS)
