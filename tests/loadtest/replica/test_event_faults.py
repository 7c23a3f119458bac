"""What goes wrong with a simulated replica's events, and that a gateway is right in the end all the same."""

import asyncio
from collections.abc import Callable

import pytest
from kv_receiver import ENGINE, Receiver, name, until

from gateway.kv.stream import Subscription
from gateway.kv.subscriber import Subscriber
from loadtest.replica.kv_events import FULL_ATTENTION, MEDIUM_GPU, BlockRemoved, BlockStored
from loadtest.replica.publisher import Faults, Publisher

ANYWHERE = "tcp://127.0.0.1:*"


def stored(token: int, times: int = 1) -> list[BlockStored]:
    """A block at position 0, told of `times` times."""
    one = BlockStored(
        [token],
        None,
        [token, 1, 2, 3],
        4,
        None,
        MEDIUM_GPU,
        None,
        [None],
        group_idx=0,
        kv_cache_spec_kind=FULL_ATTENTION,
    )
    return [one] * times


def publisher(faults: Faults, buffer_steps: int = 10_000) -> Publisher:
    return Publisher(ANYWHERE, ANYWHERE, topic="t", rank=0, buffer_steps=buffer_steps, faults=faults)


async def followed(faults: Faults, publish: Callable[[Publisher], None], end: Callable[[Receiver], bool]) -> Receiver:
    """What a gateway knows of a replica whose stream it followed from the beginning."""
    receiver = Receiver()
    subscriber = Subscriber(asyncio.get_running_loop(), receiver.deliver, b"")
    try:
        async with publisher(faults) as source:
            subscriber.subscribe(Subscription(ENGINE, 1, source.endpoint, source.replay_endpoint, "t", "m"))
            await until(lambda: bool(receiver.updates) and receiver.updates[-1].feed.confirmed_at is not None)
            publish(source)
            await until(lambda: end(receiver))
    finally:
        subscriber.close()
    return receiver


async def test_lost_batches_are_fetched() -> None:
    def publish(source: Publisher) -> None:
        for number in range(1, 41):
            source.publish(
                [*stored(number), *([BlockRemoved([number - 2], MEDIUM_GPU, group_idx=0)] if number > 2 else [])]
            )

    faults = Faults(loss=0.3, seed=1)
    receiver = await followed(faults, publish, lambda one: one.held == {name(39), name(40)})
    feed = receiver.updates[-1].feed
    assert (feed.gaps > 0, feed.clears) == (True, 0)


async def test_late_batches_come_in_order() -> None:
    def publish(source: Publisher) -> None:
        for number in range(1, 11):
            source.publish(stored(number))

    receiver = await followed(Faults(delay=0.2), publish, lambda one: len(one.held) == 10)
    assert receiver.updates[-1].feed.clears == 0


async def test_what_a_high_water_mark_drops_is_missed_and_fetched() -> None:
    dropped = 0
    for _ in range(20):  # until a burst has been too much

        def publish(source: Publisher) -> None:
            for number in range(1, 200):
                source.publish(stored(number, times=60))
            asyncio.get_running_loop().call_later(0.5, source.publish, stored(200))

        receiver = await followed(Faults(hwm=1), publish, lambda one: len(one.held) == 200)
        dropped += receiver.updates[-1].feed.gaps
        assert receiver.updates[-1].feed.clears == 0
        if dropped:
            break
    assert dropped


@pytest.mark.parametrize("loss", [0.0, 0.5, 1.0])
async def test_the_same_seed_loses_the_same(loss: float) -> None:
    lost = []
    for _ in range(2):
        async with publisher(Faults(loss=loss, seed=3)) as source:
            lost.append([source.publish([]) for _ in range(50)])
    assert lost[0] == lost[1]
    assert sum(not sent for sent in lost[0]) in ({0} if not loss else {50} if loss == 1.0 else range(10, 40))
