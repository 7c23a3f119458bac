"""The thread that receives: all sockets, and the streams behind them."""

import logging
import queue
import time
from collections.abc import Callable
from typing import ParamSpec

import zmq

from gateway.kv.commands import Command, Leave, Rebuild, Stop, Tell
from gateway.kv.listener import Listener, is_bound
from gateway.kv.stream import Stream, Subscription
from gateway.kv.update import Outbox
from routing.types import EngineId

_log = logging.getLogger(__name__)
_Args = ParamSpec("_Args")

BELL = "inproc://bell"
"""where the poller is told that there are commands"""
_TURN = 256
"""messages read from one socket before the others have their turn"""
_TICK_MS = 100
_TRIES = 20
"""to take a port, one each tick, until that is an error"""


class Poller:
    """Runs in the thread; everything but the commands is its own.

    context: has a socket bound to `BELL`.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        commands: "queue.SimpleQueue[Command]",
        outbox: Outbox,
        secret: bytes,
    ) -> None:
        self._context = context
        self._commands = commands
        self._outbox = outbox
        self._secret = secret
        self._poller = zmq.Poller()
        self._turns: dict[zmq.Socket[bytes], Callable[[float], None]] = {}
        self._streams: dict[EngineId, Stream] = {}
        self._listeners: dict[EngineId, Listener] = {}
        self._replays: dict[EngineId, zmq.Socket[bytes]] = {}
        self._bind_later: dict[EngineId, tuple[Subscription, int]] = {}
        self._moved: set[Stream] = set()
        self._running = True

    def run(self) -> None:
        """Receive until told to stop."""
        bell = self._context.socket(zmq.PAIR)
        bell.connect(BELL)
        self._watch(bell, lambda _now: self._obey(bell))
        ticked = time.monotonic()
        while self._running:
            ready = self._poller.poll(_TICK_MS)
            now = time.monotonic()
            for socket, _ in ready:
                turn = self._turns.get(socket)
                if turn is not None:
                    turn(now)
            if now - ticked >= _TICK_MS / 1000:
                ticked = now
                self._tick(now)
            self._report()
        for engine in list(self._streams):
            self._leave(engine)
        bell.close(linger=0)

    def _tick(self, now: float) -> None:
        for stream in self._streams.values():
            self._do(stream, stream.tick, now)
        late, self._bind_later = self._bind_later, {}
        for subscription, tries in late.values():
            self._join(subscription, tries + 1)

    def _obey(self, bell: zmq.Socket[bytes]) -> None:
        bell.recv()
        while True:
            try:
                command = self._commands.get_nowait()
            except queue.Empty:
                return
            match command:
                case Subscription():
                    self._leave(command.engine)
                    self._join(command)
                case Leave(engine):
                    self._leave(engine)
                case Rebuild(engine):
                    stream = self._streams.get(engine)
                    if stream is not None:
                        self._do(stream, stream.rebuild, time.monotonic())
                case Tell(engine, whole):
                    stream = self._streams.get(engine)
                    if stream is not None:
                        self._do(stream, stream.tell, whole)
                case Stop():
                    self._running = False

    def _join(self, subscription: Subscription, tries: int = 0) -> None:
        stream = Stream(subscription, self._context, self._secret)
        listener = self._shared(subscription.endpoint)
        try:
            if listener is None:
                listener = Listener(subscription.endpoint, self._context)
                for socket in (listener.socket, listener.monitor):
                    self._watch(socket, self._receiver(listener))
        except zmq.ZMQError as exc:
            if exc.errno == zmq.EADDRINUSE:
                # Most likely ours: a socket gives its port back some time after it was closed.
                self._bind_later[subscription.engine] = subscription, tries
            if exc.errno != zmq.EADDRINUSE or tries == _TRIES:
                _log.error("no KV events of %s: %s: %s", subscription.engine, subscription.endpoint, exc)
            return
        if not listener.attach(stream):
            _log.error("no KV events of %s: topic %r is another engine's", subscription.engine, subscription.topic)
            return
        self._streams[subscription.engine] = stream
        self._listeners[subscription.engine] = listener
        self._do(stream, stream.start, time.monotonic())

    def _leave(self, engine: EngineId) -> None:
        self._bind_later.pop(engine, None)
        stream = self._streams.pop(engine, None)
        if stream is None:
            return
        self._moved.discard(stream)
        stream.close()
        self._watch_replay(stream)
        listener = self._listeners.pop(engine)
        listener.detach(stream)
        if not listener.streams:
            self._forget(listener.socket)
            self._forget(listener.monitor)
            listener.close()

    def _shared(self, endpoint: str) -> Listener | None:
        if not is_bound(endpoint):
            return None
        return next((listener for listener in self._listeners.values() if listener.endpoint == endpoint), None)

    def _receiver(self, listener: Listener) -> Callable[[float], None]:
        def turn(now: float) -> None:
            received = listener.receive(_TURN)
            # A message must not pass for the next one if it came through a new connection: the engine may be new too.
            if listener.was_connected():
                for stream in listener.streams:
                    self._do(stream, stream.connected, now)
            for stream, frames in received:
                self._do(stream, stream.live, frames, now)

        return turn

    def _replayer(self, stream: Stream, socket: zmq.Socket[bytes]) -> Callable[[float], None]:
        def turn(now: float) -> None:
            for _ in range(_TURN):
                if stream.replay is not socket:
                    return
                try:
                    frames = socket.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    return
                self._do(stream, stream.replayed, frames, now)

        return turn

    def _do(self, stream: Stream, step: Callable[_Args, None], *args: _Args.args, **kwargs: _Args.kwargs) -> None:
        """Let the stream take one step. A fault of ours in it costs what is known of this engine, not the thread."""
        try:
            step(*args, **kwargs)
        except Exception:
            _log.exception("KV events of %s: a step failed; what is known of it is dropped", stream.subscription.engine)
            stream.recover()
        self._moved.add(stream)
        if stream.replay is not self._replays.get(stream.subscription.engine):
            self._watch_replay(stream)

    def _watch_replay(self, stream: Stream) -> None:
        engine = stream.subscription.engine
        old = self._replays.pop(engine, None)
        if old is not None:
            self._forget(old)
        if stream.replay is not None:
            self._replays[engine] = stream.replay
            self._watch(stream.replay, self._replayer(stream, stream.replay))

    def _watch(self, socket: zmq.Socket[bytes], turn: Callable[[float], None]) -> None:
        self._poller.register(socket, zmq.POLLIN)
        self._turns[socket] = turn

    def _forget(self, socket: zmq.Socket[bytes]) -> None:
        self._poller.unregister(socket)
        del self._turns[socket]

    def _report(self) -> None:
        for stream in self._moved:
            update = stream.take_update()
            if update is not None:
                self._outbox.put(update)
        self._moved.clear()
        self._outbox.flush()
