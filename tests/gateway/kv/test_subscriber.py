"""The subscriber over real sockets, against a publisher that behaves as vLLM's."""

from collections.abc import Callable

import pytest
from kv_publisher import Publisher
from kv_receiver import BLOCK, ENGINE, Receiver, follow, name, removed, stored, until

from gateway.kv.subscriber import Subscriber
from routing.ledger import Put
from routing.types import Tier


async def test_published_blocks_arrive(subscriber: Subscriber, publisher: Publisher, receiver: Receiver) -> None:
    await follow(subscriber, publisher, generation=7)
    publisher.publish(stored(10))
    await until(receiver.holds(10))
    update = receiver.updates[-1]
    assert (update.engine, update.generation, update.block_size, update.feed.last_seq) == (ENGINE, 7, BLOCK, 0)


@pytest.mark.parametrize("topic_in_replay", [True, False], ids=["since vLLM 0.26", "up to vLLM 0.25"])
async def test_joining_late_learns_what_an_idle_engine_holds(
    topic_in_replay: bool, subscriber: Subscriber, make_publisher: Callable[..., Publisher], receiver: Receiver
) -> None:
    publisher = make_publisher(topic_in_replay=topic_in_replay)
    publisher.publish(stored(10), stored(11))
    publisher.publish(removed(11))
    await follow(subscriber, publisher)
    await until(receiver.holds(10))
    assert publisher.requests[0] == 0


async def test_lost_messages_are_fetched_and_applied_in_order(
    subscriber: Subscriber, publisher: Publisher, receiver: Receiver
) -> None:
    await follow(subscriber, publisher)
    publisher.publish(stored(10))
    await until(receiver.holds(10))
    publisher.publish(stored(11), lost=True)
    publisher.publish(removed(10), lost=True)
    publisher.publish(stored(10), removed(11))
    await until(receiver.holds(10))
    await until(lambda: receiver.updates[-1].feed.last_seq == 3)
    assert receiver.held == {name(10)}
    assert receiver.updates[-1].feed.gaps == 1
    assert receiver.updates[-1].feed.clears == 0


async def test_what_the_engine_no_longer_has_clears(
    subscriber: Subscriber, publisher: Publisher, receiver: Receiver
) -> None:
    await follow(subscriber, publisher)
    publisher.publish(stored(10))
    await until(receiver.holds(10))
    publisher.publish(removed(10), lost=True)
    publisher.publish(stored(11), lost=True)
    publisher.buffer.popleft()
    publisher.buffer.popleft()
    publisher.publish(stored(12))
    await until(receiver.holds(11, 12))


async def test_without_a_replay_endpoint_a_gap_clears(
    subscriber: Subscriber, make_publisher: Callable[..., Publisher], receiver: Receiver
) -> None:
    publisher = make_publisher(replay=False)
    await follow(subscriber, publisher)
    publisher.publish(stored(10))
    await until(receiver.holds(10))
    publisher.publish(removed(10), lost=True)
    publisher.publish(stored(12))
    await until(receiver.holds(12))


async def test_a_payload_that_cannot_be_read_clears(
    subscriber: Subscriber, publisher: Publisher, receiver: Receiver
) -> None:
    await follow(subscriber, publisher)
    publisher.publish(stored(10))
    await until(receiver.holds(10))
    publisher.publish_payload(b"\xc1")
    await until(receiver.holds())
    publisher.publish(stored(11))
    await until(receiver.holds(11))
    assert receiver.updates[-1].feed.unreadable == 1


async def test_an_engine_left_is_not_heard(subscriber: Subscriber, publisher: Publisher, receiver: Receiver) -> None:
    await follow(subscriber, publisher)
    publisher.publish(stored(10))
    await until(receiver.holds(10))
    subscriber.unsubscribe(ENGINE)
    await until(lambda: publisher.subscribers() == 0)
    publisher.publish(stored(11))
    await follow(subscriber, publisher, generation=2)
    await until(lambda: receiver.updates[-1].feed.last_seq == 1)
    told = [(update.generation, change) for update in receiver.updates for change in update.changes]
    assert told == [(1, Put(Tier.GPU, [name(10)])), (2, Put(Tier.GPU, [name(10)])), (2, Put(Tier.GPU, [name(11)]))]
