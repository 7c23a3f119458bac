"""An engine's event sockets as vLLM has them, with losses and restarts on demand."""

import threading
import time
from collections import deque

import msgspec
import zmq
from processes import free_port

_PATIENCE = 10.0


class Publisher:
    """PUB and ROUTER of one engine. XPUB, so that a test can wait for the subscriber.

    replay: it has a replay endpoint. topic_in_replay: as vLLM since 0.26. host: IPv6 in brackets.
    dial: the gateway's address, if the engine connects to the gateway.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        *,
        replay: bool = True,
        topic_in_replay: bool = True,
        topic: str = "kv-events",
        host: str = "127.0.0.1",
        dial: str | None = None,
    ) -> None:
        self._context = context
        self._topic_in_replay = topic_in_replay
        self._dial = dial
        self.topic = topic
        self.endpoint = f"tcp://{host}:{free_port()}"
        self.replay_endpoint = f"tcp://{host}:{free_port()}" if replay else None
        self.requests: list[int] = []
        """first numbers of the replays asked for"""
        self.answering = threading.Event()
        """without it replays wait"""
        self.answering.set()
        self.start()

    def start(self) -> None:
        """A new process: numbers from 0, an empty buffer."""
        self._seq = 0
        self._subscribers = 0
        self.buffer: deque[tuple[int, bytes]] = deque(maxlen=10_000)
        self._pub = self._context.socket(zmq.XPUB)
        self._pub.setsockopt(zmq.LINGER, 1000)
        self._pub.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._pub.setsockopt(zmq.IPV6, 1)
        if self._dial is None:
            _bind(self._pub, self.endpoint)
        else:
            self._pub.connect(self._dial)
        self._running = True
        self._thread: threading.Thread | None = None
        if self.replay_endpoint is not None:
            router = self._context.socket(zmq.ROUTER)
            router.setsockopt(zmq.IPV6, 1)
            _bind(router, self.replay_endpoint)
            self._thread = threading.Thread(target=self._serve_replay, args=(router,))
            self._thread.start()

    def stop(self) -> None:
        """The process ends."""
        self._running = False
        if self._thread is not None:
            self._thread.join()
        self._pub.close()

    def subscribers(self) -> int:
        """How many subscriptions to its topic there are."""
        topic = self.topic.encode()
        while self._pub.poll(0):
            self._subscribers += {b"\x01" + topic: 1, b"\x00" + topic: -1}.get(self._pub.recv(), 0)
        return self._subscribers

    def publish(self, *events: dict[str, object], lost: bool = False) -> None:
        """Send a batch. lost: it stays in the buffer and does not reach the subscriber."""
        self.publish_payload(msgspec.msgpack.encode([time.time(), events, 0]), lost=lost)

    def publish_payload(self, payload: bytes, *, lost: bool = False) -> None:
        """As `publish`, with bytes of any kind."""
        if not lost:
            self._pub.send_multipart([self.topic.encode(), self._seq.to_bytes(8, "big"), payload])
        self.buffer.append((self._seq, payload))
        self._seq += 1

    def _serve_replay(self, router: zmq.Socket[bytes]) -> None:
        while self._running:
            if not router.poll(10):
                continue
            client, _, start = router.recv_multipart()
            while self._running and not self.answering.wait(0.01):
                pass
            self.requests.append(int.from_bytes(start, "big"))
            topic = [self.topic.encode()] if self._topic_in_replay else []
            for seq, payload in list(self.buffer):
                if seq >= int.from_bytes(start, "big"):
                    router.send_multipart([client, b"", *topic, seq.to_bytes(8, "big"), payload])
            router.send_multipart([client, b"", *[b"" for _ in topic], b"\xff" * 8, b""])
        router.close(linger=0)


def _bind(sock: zmq.Socket[bytes], endpoint: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            sock.bind(endpoint)
        except zmq.ZMQError:
            # The port of a closed socket is given back by ZMQ's own thread.
            if time.monotonic() > deadline:
                raise
        else:
            return
