"""Blocks are read past the library, which is asked again where they are when they are no longer there."""

import pytest
from processes import eventually
from redis import Redis
from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode
from shared_gateway import engine
from valkey_server import Valkey, valkey_cluster

from gateway.redis.batch import Batch
from gateway.redis.redis_index import RedisIndex, RedisIndexError
from gateway.redis.tenure import acquire
from routing.changes import Put
from routing.types import BlockHash, PrefixMatch, Tier

A = engine(1)
CHAIN = [BlockHash(number * 0x0101010101010101) for number in range(6)]


def move(slot: int, target: Valkey, nodes: list[Valkey]) -> None:
    """The slot, in which nothing is stored, is another node's from now on."""
    with Redis(port=target.port) as client:
        name = client.cluster("MYID")
    for node in (target, *nodes):
        with Redis(port=node.port) as client:
            client.cluster("SETSLOT", slot, "NODE", name)


async def close_from_afar(node: ClusterNode) -> None:
    """The connection that the next who asks is given."""
    connection = node.acquire_connection()
    with Redis(port=int(node.port)) as client:
        client.client_kill_filter(_type="normal", skipme=True)
    await eventually(connection.can_read, "the connection is closed")
    node.release(connection)


async def test_a_connection_that_was_closed_is_opened_again_and_a_model_that_moved_is_found() -> None:
    with valkey_cluster() as servers:
        nodes = list(servers)
        async with RedisCluster.from_url(nodes[0].url) as reader, RedisCluster.from_url(nodes[0].url) as writer:
            index = RedisIndex(reader, "test:")
            assert await index.match("model", CHAIN) == {}
            slot = reader.keyslot(index.base("model"))
            owner = reader.get_node_from_key(index.base("model"))
            assert owner is not None
            await close_from_afar(owner)
            assert await index.match("model", CHAIN) == {}
            move(slot, next(node for node in nodes if node.port != owner.port), nodes)
            tenure = await acquire(RedisIndex(writer, "test:"), "model", A, "gateway", 600_000)
            assert tenure is not None
            batch = Batch("all")
            batch.add([Put(Tier.GPU, CHAIN)], None, None, lambda tier: frozenset())
            await tenure.apply(batch)
            with pytest.raises(RedisIndexError, match="Moved"):
                await index.match("model", CHAIN)
            assert await index.match("model", CHAIN) == {A: PrefixMatch(6, 6)}
