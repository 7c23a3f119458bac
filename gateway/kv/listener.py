"""A SUB socket: one engine's publisher, or several engines that connect to us and differ by topic."""

from collections.abc import Sequence

import zmq
from zmq.utils.monitor import recv_monitor_message

from gateway.kv.stream import Stream

_WILDCARDS = ("tcp://*:", "tcp://0.0.0.0:", "tcp://[::]:", "tcp://:::")
_HEARTBEAT_MS = 5_000
_SILENCE_MS = 15_000
_RECONNECT_MS = 100
_RECONNECT_MAX_MS = 2_000


def is_bound(endpoint: str) -> bool:
    """Whether the address is one to bind: no engine has it."""
    return endpoint.startswith(_WILDCARDS)


class Listener:
    """Receives for one or more streams. All calls come from the thread that polls its sockets."""

    def __init__(self, endpoint: str, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        """Raises zmq.ZMQError if the address is malformed or, to be bound, taken."""
        self.endpoint = endpoint
        self.socket: zmq.Socket[bytes] = context.socket(zmq.SUB)
        self.monitor: zmq.Socket[bytes] = self.socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        try:
            self.socket.setsockopt(zmq.RCVHWM, 0)
            self.socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
            self.socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _SILENCE_MS)
            self.socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
            self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
            if is_bound(endpoint):
                self.socket.bind(endpoint)
            else:
                self.socket.connect(endpoint)
        except zmq.ZMQError:
            self.close()
            raise
        self._streams: dict[bytes, Stream] = {}

    @property
    def streams(self) -> Sequence[Stream]:
        return list(self._streams.values())

    def attach(self, stream: Stream) -> bool:
        """Returns False, and does nothing, if another stream has this topic already."""
        topic = stream.subscription.topic.encode()
        if topic in self._streams:
            return False
        self._streams[topic] = stream
        self.socket.setsockopt(zmq.SUBSCRIBE, topic)
        return True

    def detach(self, stream: Stream) -> None:
        topic = stream.subscription.topic.encode()
        if self._streams.get(topic) is stream:
            del self._streams[topic]
            self.socket.setsockopt(zmq.UNSUBSCRIBE, topic)

    def receive(self, limit: int) -> list[tuple[Stream, list[bytes]]]:
        """What has come, at most `limit` messages. Those of a topic that nobody has are dropped."""
        received: list[tuple[Stream, list[bytes]]] = []
        for _ in range(limit):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            stream = self._streams.get(frames[0]) or self._streams.get(b"")
            if stream is not None:
                received.append((stream, frames))
        return received

    def was_connected(self) -> bool:
        """Whether a connection was made since the last call.

        Asked after `receive`, it tells of every connection through which one of the messages came.
        """
        made = False
        while self.monitor.poll(0):
            recv_monitor_message(self.monitor)
            made = True
        return made

    def close(self) -> None:
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=0)
