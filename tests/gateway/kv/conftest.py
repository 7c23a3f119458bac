"""A subscriber, and engines for it, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import zmq
from kv_publisher import Publisher
from kv_receiver import Receiver

from gateway.kv.subscriber import Subscriber


@pytest.fixture
def make_publisher() -> Iterator[Callable[..., Publisher]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made: list[Publisher] = []

    def make(**how: Any) -> Publisher:
        made.append(Publisher(context, **how))
        return made[-1]

    yield make
    for publisher in made:
        publisher.stop()
    context.term()


@pytest.fixture
def publisher(make_publisher: Callable[..., Publisher]) -> Publisher:
    return make_publisher()


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
async def subscriber(receiver: Receiver) -> AsyncIterator[Subscriber]:
    subscriber = Subscriber(asyncio.get_running_loop(), receiver.deliver, b"")
    yield subscriber
    subscriber.close()
