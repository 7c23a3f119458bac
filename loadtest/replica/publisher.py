"""KV events over ZMQ: a PUB socket for what happens, a ROUTER socket for what was missed."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Self

import msgspec
import zmq
import zmq.asyncio

from loadtest.replica.kv_events import EventBatch, KVEvent

DEFAULT_BUFFER_STEPS = 10_000
HIGH_WATER_MARK = 100_000
END_OF_REPLAY = (-1).to_bytes(8, "big", signed=True)
_SEQUENCE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong on the way to the subscribers; a replay still has it. The same for the same seed."""

    loss: float = 0.0
    """share of the batches that are not sent, 0-1"""
    delay: float = 0.0
    """seconds for which each batch is held back, and those behind it"""
    hwm: int = HIGH_WATER_MARK
    """batches that wait for a slow subscriber; more are lost to it"""
    seed: int = 0


NO_FAULTS = Faults()


class Publisher:
    """vLLM's event transport for one engine.

    PUB frames: `topic, sequence (8 bytes, big endian, from 0), payload`. A DEALER that sends `b"", first sequence` gets
    `b"", topic, sequence, payload` for every buffered batch from there on, then an end mark with an empty payload.
    """

    def __init__(
        self,
        endpoint: str,
        replay_endpoint: str,
        *,
        topic: str,
        rank: int,
        buffer_steps: int,
        faults: Faults = NO_FAULTS,
    ) -> None:
        """endpoint, replay_endpoint: where to bind; `tcp://host:*` takes a free port. Use it as a context manager.

        Raises zmq.ZMQError if an address is taken.
        """
        self._topic = topic.encode()
        self._rank = rank
        self._faults = faults
        self._random = Random(faults.seed)
        self._sequence = 0
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=buffer_steps)
        self._context = zmq.Context()
        self._pub = self._context.socket(zmq.PUB)
        self._router = zmq.asyncio.Socket(self._context, zmq.ROUTER)
        self._task: asyncio.Task[None] | None = None
        try:
            self._pub.setsockopt(zmq.SNDHWM, faults.hwm)
            self._router.setsockopt(zmq.SNDHWM, 2 * (buffer_steps + 1))
            self._pub.bind(endpoint)
            self._router.bind(replay_endpoint)
        except zmq.ZMQError:
            self._close()
            raise
        self.endpoint = self._pub.getsockopt_string(zmq.LAST_ENDPOINT)
        self.replay_endpoint = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.topic = topic
        self.buffer_steps = buffer_steps

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._serve_replays())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._close()

    def publish(self, events: Sequence[KVEvent]) -> bool:
        """Send one batch. Never waits: what exceeds a slow subscriber's high-water mark is lost to it.

        Returns False if this one is not sent at all.
        """
        payload = msgspec.msgpack.encode(EventBatch(time.time(), events, self._rank))
        self._buffer.append((self._sequence, payload))
        frames = (self._topic, self._sequence.to_bytes(_SEQUENCE_BYTES, "big"), payload)
        self._sequence += 1
        if self._random.random() < self._faults.loss:
            return False
        if self._faults.delay:
            asyncio.get_running_loop().call_later(self._faults.delay, self._send, frames)
        else:
            self._send(frames)
        return True

    def _send(self, frames: tuple[bytes, bytes, bytes]) -> None:
        if not self._pub.closed:
            self._pub.send_multipart(frames)

    async def _serve_replays(self) -> None:
        while True:
            frames = await self._router.recv_multipart()
            if len(frames) != 3 or len(frames[2]) != _SEQUENCE_BYTES:
                continue
            client, first = frames[0], int.from_bytes(frames[2], "big")
            for sequence, payload in [kept for kept in self._buffer if kept[0] >= first]:
                name = sequence.to_bytes(_SEQUENCE_BYTES, "big")
                await self._router.send_multipart((client, b"", self._topic, name, payload))
            await self._router.send_multipart((client, b"", b"", END_OF_REPLAY, b""))

    def _close(self) -> None:
        self._pub.close(linger=0)
        self._router.close(linger=0)
        self._context.term()
