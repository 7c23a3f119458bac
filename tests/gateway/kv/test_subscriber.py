"""The subscriber over real sockets, against a publisher that behaves as vLLM's."""

import asyncio
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import msgspec
import pytest
import zmq

from gateway.kv.subscriber import Subscriber
from gateway.kv.update import Update
from routing.blocks import block_hashes, root_hash
from routing.ledger import Drop, Put
from routing.types import BlockHash, EngineId, ReplicaId, Tier

ENGINE = EngineId(ReplicaId("127.0.0.1:8000"), 0)
BLOCK = 4
PATIENCE = 10.0


class Publisher:
    """PUB and ROUTER of one engine. XPUB, so that a test can wait for the subscriber."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], *, topic_in_replay: bool = True, replay: bool = True):
        self._context = context
        self._topic_in_replay = topic_in_replay
        self._ports = (_free_port(), _free_port())
        self.endpoint = f"tcp://127.0.0.1:{self._ports[0]}"
        self.replay_endpoint = f"tcp://127.0.0.1:{self._ports[1]}" if replay else None
        self.requests: list[int] = []
        self.start()

    def start(self) -> None:
        """A new process: numbers from 0, an empty buffer."""
        self._seq = 0
        self.buffer: deque[tuple[int, bytes]] = deque(maxlen=10_000)
        self._pub = self._context.socket(zmq.XPUB)
        self._pub.setsockopt(zmq.LINGER, 1000)
        self._pub.setsockopt(zmq.XPUB_VERBOSER, 1)
        _bind(self._pub, self.endpoint)
        self._running = True
        self._thread: threading.Thread | None = None
        if self.replay_endpoint is not None:
            router = self._context.socket(zmq.ROUTER)
            _bind(router, self.replay_endpoint)
            self._thread = threading.Thread(target=self._serve_replay, args=(router,))
            self._thread.start()

    def stop(self) -> None:
        self._running = False
        if self._thread is not None:
            self._thread.join()
        self._pub.close()

    def has_subscriber(self) -> bool:
        return bool(self._pub.poll(0)) and self._pub.recv().startswith(b"\x01")

    def publish(self, *events: dict[str, object], lost: bool = False) -> None:
        """lost: it stays in the buffer and does not reach the subscriber."""
        payload = msgspec.msgpack.encode([time.time(), events, 0])
        if not lost:
            self._pub.send_multipart([b"kv-events", self._seq.to_bytes(8, "big"), payload])
        self.buffer.append((self._seq, payload))
        self._seq += 1

    def _serve_replay(self, router: zmq.Socket[bytes]) -> None:
        while self._running:
            if not router.poll(10):
                continue
            client, _, start = router.recv_multipart()
            self.requests.append(int.from_bytes(start, "big"))
            topic = [b"kv-events"] if self._topic_in_replay else []
            for seq, payload in list(self.buffer):
                if seq >= int.from_bytes(start, "big"):
                    router.send_multipart([client, b"", *topic, seq.to_bytes(8, "big"), payload])
            router.send_multipart([client, b"", *[b"" for _ in topic], b"\xff" * 8, b""])
        router.close(linger=0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _bind(sock: zmq.Socket[bytes], endpoint: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            sock.bind(endpoint)
        except zmq.ZMQError:
            # The port of a closed socket is given back by ZMQ's own thread.
            if time.monotonic() > deadline:
                raise
        else:
            return


def stored(tokens: Sequence[int], parent: int | None = None) -> dict[str, object]:
    """As vLLM announces one block; its hash is its first token."""
    return {
        "type": "BlockStored",
        "block_hashes": [tokens[0]],
        "parent_block_hash": parent,
        "token_ids": list(tokens),
        "block_size": BLOCK,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }


def removed(hash_: int) -> dict[str, object]:
    return {"type": "BlockRemoved", "block_hashes": [hash_], "medium": "GPU", "group_idx": 0}


def root_block(first_token: int) -> list[int]:
    return [first_token, 1, 2, 3]


def name(first_token: int) -> BlockHash:
    return block_hashes(root_block(first_token), BLOCK, root_hash(b"", "m", BLOCK))[0]


class Receiver:
    """What the event loop knows of the engine."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.held: set[BlockHash] = set()

    def deliver(self, update: Update) -> None:
        self.updates.append(update)
        for change in update.changes:
            match change:
                case Put(Tier.GPU, blocks):
                    self.held.update(blocks)
                case Drop(Tier.GPU, blocks):
                    self.held.difference_update(blocks)
                case _:
                    self.held.clear()

    def holds(self, *first_tokens: int) -> Callable[[], bool]:
        return lambda: self.held == {name(token) for token in first_tokens}


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.005)


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.term()


@pytest.fixture
def publisher(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Publisher]:
    publisher = Publisher(context)
    yield publisher
    publisher.stop()


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
async def subscriber(receiver: Receiver) -> AsyncIterator[Subscriber]:
    subscriber = Subscriber(asyncio.get_running_loop(), receiver.deliver, b"")
    yield subscriber
    subscriber.close()


def follow(subscriber: Subscriber, publisher: Publisher, generation: int = 1) -> None:
    subscriber.subscribe(ENGINE, generation, publisher.endpoint, publisher.replay_endpoint, "kv-events", "m")


async def test_published_blocks_arrive(subscriber: Subscriber, publisher: Publisher, receiver: Receiver) -> None:
    follow(subscriber, publisher, generation=7)
    await until(publisher.has_subscriber)
    publisher.publish(stored(root_block(10)))
    await until(receiver.holds(10))
    update = receiver.updates[-1]
    assert (update.engine, update.generation, update.block_size, update.feed.last_seq) == (ENGINE, 7, BLOCK, 0)


async def test_joining_late_learns_what_an_idle_engine_holds(
    subscriber: Subscriber, publisher: Publisher, receiver: Receiver
) -> None:
    publisher.publish(stored(root_block(10)), stored(root_block(11)))
    publisher.publish(removed(11))
    follow(subscriber, publisher)
    await until(receiver.holds(10))


async def test_lost_messages_are_fetched(subscriber: Subscriber, publisher: Publisher, receiver: Receiver) -> None:
    follow(subscriber, publisher)
    await until(publisher.has_subscriber)
    publisher.publish(stored(root_block(10)))
    await until(receiver.holds(10))
    publisher.publish(stored(root_block(11)), lost=True)
    publisher.publish(removed(10), lost=True)
    publisher.publish(stored(root_block(12)))
    await until(receiver.holds(11, 12))
    assert receiver.updates[-1].feed.gaps == 1
    assert receiver.updates[-1].feed.clears == 0
