"""An index that drifted is learned anew from the engine, over real sockets."""

import asyncio
import time
from collections.abc import Iterator

import pytest
import zmq
from asgi_side import posted
from endings import record
from kv_publisher import Publisher
from kv_receiver import BLOCK, name, stored, until
from membership_world import A, World, membership_world, replica, update

from gateway.kv.sources import Source
from gateway.relay.inbound import Inbound
from gateway.relay.record import Ended
from gateway.relay.response import Ending, Outcome
from gateway.relay.usage import Usage
from routing.cost import Prediction
from routing.decision import Decision, Matched
from routing.ledger import Put
from routing.types import BlockHash, PrefixMatch, Tier

PHANTOMS = [name(10), BlockHash(1), BlockHash(2)]
"""the first block is held, the others are not"""


def answered() -> Ended:
    """A request that was decided by the index, and of which the engine found only the first block."""
    nothing = Prediction(0, 0, 0, 0, 0)
    decision = Decision(A, "kv-aware", "", 3 * BLOCK + 1, 3 * BLOCK, 3 * BLOCK, nothing, ())
    decision = decision._replace(matched=Matched(PHANTOMS, BLOCK, 3))
    inbound = Inbound(posted("/"), "id", "m", b"", hide_usage=False, arrived=time.monotonic() - 10.0)
    usage = Usage(3 * BLOCK + 1, 1, BLOCK)
    outcome = Outcome(Ending.COMPLETE, 200, 1, None, usage, False, True)
    return Ended(inbound, record(inbound, decision, outcome))


def counted(world: World, name: str, **labels: str) -> float:
    return world.metrics.registry.get_sample_value(name, {"replica": A.replica, "engine": "0", **labels}) or 0.0


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    publisher = Publisher(context)
    yield publisher
    publisher.stop()
    context.term()


async def test_an_index_that_has_what_the_engine_has_not_is_rebuilt_once(
    publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    async with membership_world() as world:
        source = Source(publisher.endpoint, publisher.replay_endpoint, publisher.topic)
        world.membership.join(replica(block_size=BLOCK), {0: source})
        publisher.publish(stored(10))
        await until(lambda: world.index.held(A, Tier.GPU) == 1)
        world.membership.take_in(update(1, [Put(Tier.GPU, PHANTOMS[1:])], block_size=BLOCK))
        assert world.index.match(PHANTOMS) == {A: PrefixMatch(3, 3)}
        for _ in range(8):
            world.auditor.ended(answered())
        tokens = iter(range(100, 200))
        while counted(world, "kvgate_index_rebuilds_total") < 1.0:
            publisher.publish(stored(next(tokens)))
            await asyncio.sleep(0.1)
        assert counted(world, "kvgate_index_audit_total", verdict="phantom") >= 3.0
        await until(lambda: world.index.match(PHANTOMS) == {A: PrefixMatch(1, 1)})
        assert publisher.requests[-1] == 0
        assert [record.levelname for record in caplog.records if "rebuilt" in record.message] == ["ERROR"]
        assert counted(world, "kvgate_index_rebuilds_total") == 1.0
