"""Reads the KV events of all engines in one thread and hands their effect to the event loop.

A thread of its own, because decoding and booking events costs the loop's time in bursts; one for all, because receiving
without asyncio is what makes it cheap.
"""

import asyncio
import queue
import threading
from collections.abc import Callable

import zmq

from gateway.kv.commands import Command, Leave, Rebuild, Stop, Tell
from gateway.kv.poller import BELL, Poller
from gateway.kv.stream import Subscription
from gateway.kv.update import Outbox, Update
from routing.types import EngineId


class Subscriber:
    """The loop's side. All methods are called in the loop's thread; none of them waits for an engine.

    deliver: called in the loop with each update.
    secret: what block names depend on (`routing.blocks.root_hash`).
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: Callable[[Update], None], secret: bytes) -> None:
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.setsockopt(zmq.IPV6, 1)
        self._bell = self._context.socket(zmq.PAIR)
        self._bell.bind(BELL)
        poller = Poller(self._context, self._commands, Outbox(loop, deliver), secret)
        self._thread = threading.Thread(target=poller.run, name="kv-events", daemon=True)
        self._thread.start()

    def subscribe(self, subscription: Subscription) -> None:
        """Follow an engine, in place of an earlier subscription of it. The engine need not be up yet."""
        self._send(subscription)

    def tell(self, engine: EngineId, *, whole: bool) -> None:
        """Have an update of the engine delivered, even without news; whole: of all that is known, after a wipe."""
        self._send(Tell(engine, whole))

    def unsubscribe(self, engine: EngineId) -> None:
        """Follow it no longer. Updates under way may still be delivered."""
        self._send(Leave(engine))

    def rebuild(self, engine: EngineId) -> None:
        """Forget what is known of it and learn it again. Does nothing for one that is not followed here."""
        self._send(Rebuild(engine))

    def close(self) -> None:
        """Follow no engine any more and end the thread."""
        if self._context.closed:
            return
        self._send(Stop())
        self._thread.join()
        self._bell.close(linger=0)
        self._context.term()

    def _send(self, command: Command) -> None:
        self._commands.put(command)
        try:
            self._bell.send(b"", zmq.NOBLOCK)
        except zmq.Again:
            # It rings already: the thread will find this command too.
            return
