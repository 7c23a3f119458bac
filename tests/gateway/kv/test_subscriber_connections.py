"""Engines that come, go, restart, and connect to us."""

import socket
from collections.abc import Callable

import pytest
from kv_publisher import Publisher
from kv_receiver import ENGINE, Receiver, follow, name, stored, until
from processes import free_port

from gateway.kv.stream import Subscription
from gateway.kv.subscriber import Subscriber
from routing.ledger import Put
from routing.types import EngineId, ReplicaId


async def test_an_engine_may_come_up_after_the_subscription(
    subscriber: Subscriber, publisher: Publisher, receiver: Receiver
) -> None:
    publisher.stop()
    subscriber.subscribe(Subscription(ENGINE, 1, publisher.endpoint, publisher.replay_endpoint, publisher.topic, "m"))
    publisher.start()
    publisher.publish(stored(10))
    await until(receiver.holds(10))


async def test_a_restarted_engine_holds_nothing_of_before(
    subscriber: Subscriber, publisher: Publisher, receiver: Receiver
) -> None:
    await follow(subscriber, publisher)
    publisher.publish(stored(10))
    await until(receiver.holds(10))
    publisher.stop()
    publisher.start()
    await until(receiver.holds())
    await until(lambda: publisher.subscribers() >= 1)
    publisher.publish(stored(11))
    await until(receiver.holds(11))


async def test_an_engine_that_restarted_and_is_past_our_number_is_found_out(
    subscriber: Subscriber, publisher: Publisher, receiver: Receiver
) -> None:
    await follow(subscriber, publisher)
    publisher.publish(stored(10))
    publisher.publish(stored(11))
    await until(receiver.holds(10, 11))
    publisher.stop()
    publisher.start()
    for token in (20, 21, 22, 23):
        publisher.publish(stored(token), lost=True)
    await until(receiver.holds(20, 21, 22, 23))
    assert receiver.updates[-1].feed.restarts == 1


async def test_engines_that_connect_to_us_are_told_apart_by_topic(
    subscriber: Subscriber, make_publisher: Callable[..., Publisher], receiver: Receiver
) -> None:
    port = free_port()
    engines = [EngineId(ReplicaId(f"10.0.0.{n}:8000"), 0) for n in range(2)]
    publishers = [make_publisher(dial=f"tcp://127.0.0.1:{port}", topic=f"kv@{n}") for n in range(2)]
    for engine, publisher in zip(engines, publishers, strict=True):
        publisher.endpoint = f"tcp://*:{port}"
        await follow(subscriber, publisher, engine=engine)
    for n, publisher in enumerate(publishers):
        publisher.publish(stored(10 + n))
    await until(receiver.holds(10, 11))
    put = {(update.engine, block) for update in receiver.updates for change in update.changes
           if isinstance(change, Put) for block in change.blocks}  # fmt: skip
    assert put == {(engines[0], name(10)), (engines[1], name(11))}


async def test_a_port_that_engines_connect_to_is_taken_again(
    subscriber: Subscriber, make_publisher: Callable[..., Publisher], receiver: Receiver
) -> None:
    port = free_port()
    publisher = make_publisher(dial=f"tcp://127.0.0.1:{port}")
    publisher.endpoint = f"tcp://*:{port}"
    await follow(subscriber, publisher, generation=1)
    subscriber.unsubscribe(ENGINE)
    await follow(subscriber, publisher, generation=2)
    publisher.publish(stored(10))
    await until(receiver.holds(10))


async def test_engines_are_reached_over_ipv6(
    subscriber: Subscriber, make_publisher: Callable[..., Publisher], receiver: Receiver
) -> None:
    publisher = make_publisher(host="[::1]")
    publisher.publish(stored(10))
    await follow(subscriber, publisher)
    await until(receiver.holds(10))


async def test_an_address_that_makes_no_sense_is_reported_and_stops_nobody(
    subscriber: Subscriber, publisher: Publisher, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    subscriber.subscribe(Subscription(EngineId(ReplicaId("bad"), 0), 1, "tcp://nowhere", None, "", "m"))
    await follow(subscriber, publisher)
    publisher.publish(stored(10))
    await until(receiver.holds(10))
    assert "tcp://nowhere" in caplog.text


async def test_a_port_that_somebody_else_has_is_reported_and_taken_once_it_is_free(
    subscriber: Subscriber,
    make_publisher: Callable[..., Publisher],
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    publisher = make_publisher(dial=f"tcp://127.0.0.1:{port}")
    publisher.endpoint = f"tcp://*:{port}"
    with socket.create_server(("", port)):
        subscriber.subscribe(Subscription(ENGINE, 1, publisher.endpoint, None, publisher.topic, "m"))
        await until(lambda: publisher.endpoint in caplog.text)
    await until(lambda: publisher.subscribers() == 1)
    publisher.publish(stored(10))
    await until(receiver.holds(10))
