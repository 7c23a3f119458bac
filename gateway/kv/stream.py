"""One engine's event stream in the poller thread: feed and ledger, and the socket that replays come through."""

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import zmq

from gateway.kv.actions import Action, Apply, Ask, Clear
from gateway.kv.feed import Feed
from gateway.kv.position import Kept
from gateway.kv.update import Update
from routing.journal import Journal
from routing.ledger import Change, Ledger
from routing.types import EngineId

_NUMBER_BYTES = 8
_END = b"\xff" * _NUMBER_BYTES


@dataclass(frozen=True, slots=True)
class Subscription:
    """Where an engine's events come from."""

    engine: EngineId
    generation: int
    endpoint: str
    """ZMQ address of its publisher; an address to bind, such as `tcp://*:5557`, if the engine connects to us"""
    replay_endpoint: str | None
    topic: str
    """as the engine publishes; empty: any"""
    model: str
    """what names depend on (`routing.types.Namespace.model`)"""
    host_tokens: int = 0
    """what LMCache inside the engine keeps in host memory (`routing.ledger.Ledger`)"""
    recorded: bool = False
    """updates tell what changed in the books, which are kept elsewhere too"""
    kept: Kept | None = None
    """where to go on; if recorded, and with a replay endpoint"""


class Stream:
    """The state of one subscription. All calls come from the thread that polls its sockets."""

    def __init__(self, subscription: Subscription, context: zmq.Context[zmq.Socket[bytes]], secret: bytes) -> None:
        self.subscription = subscription
        self.replay: zmq.Socket[bytes] | None = None
        """where the answer to the running request comes; a new one for each request, so that answers never mix"""
        self._context = context
        kept = subscription.kept
        self._feed = Feed(replayable=subscription.replay_endpoint is not None, kept=kept.position if kept else None)
        self._recorded = subscription.recorded
        self._ledger = Ledger(
            secret,
            subscription.model,
            host_tokens=subscription.host_tokens,
            journal=Journal() if self._recorded else None,
        )
        self._ignored: Counter[str] = Counter()
        self._changes: list[Change] = self._ledger.restore(kept.books) if kept else []
        self._touched = False

    def start(self, now: float) -> None:
        self._perform(self._feed.start(now))

    def connected(self, now: float) -> None:
        """The connection to the publisher was made, or made again."""
        self._perform(self._feed.connected(now))

    def live(self, frames: Sequence[bytes], now: float) -> None:
        """A published message: `[topic, number, payload]`. Others are counted and left out."""
        if len(frames) < 2 or len(frames[-2]) != _NUMBER_BYTES:
            self._ignored["frames"] += 1
            return
        self._touched = True
        self._perform(self._feed.live(int.from_bytes(frames[-2], "big"), frames[-1], now))

    def replayed(self, frames: Sequence[bytes], now: float) -> None:
        """A message of an answer: `[empty, topic, number, payload]`, up to vLLM 0.25 and in SGLang without topic."""
        if len(frames) < 2 or len(frames[-2]) != _NUMBER_BYTES:
            self._ignored["frames"] += 1
        elif frames[-2] == _END:
            self._touched = True
            self._perform(self._feed.replay_ended(now))
        else:
            self._perform(self._feed.replayed(int.from_bytes(frames[-2], "big"), frames[-1], now))

    def rebuild(self, now: float) -> None:
        """Forget what is booked and learn it again."""
        self._perform(self._feed.rebuild(now))

    def tick(self, now: float) -> None:
        self._perform(self._feed.tick(now))

    def take_update(self) -> Update | None:
        """What has changed since the last call, if anything has happened."""
        if not self._touched:
            return None
        changes, self._changes, self._touched = self._changes, [], False
        return Update(
            engine=self.subscription.engine,
            generation=self.subscription.generation,
            changes=changes,
            block_size=self._ledger.block_size,
            unjudged_groups=self._ledger.unjudged_groups,
            windowed_groups=self._ledger.windowed_groups,
            looks_ahead=self._ledger.looks_ahead,
            feed=copy(self._feed.counters),
            orphans=self._ledger.orphans,
            unplaced=self._ledger.unplaced,
            stored_in_storage=self._ledger.stored_in_storage,
            ignored=dict(self._ignored),
            entries=self._ledger.entries() if self._recorded else None,
            position=self._feed.position,
            settled=self._feed.settled,
        )

    def tell(self, whole: bool) -> None:
        """Have an update made; whole: it tells of everything, for a place that has nothing."""
        if whole:
            self._changes = self._ledger.whole()
        self._touched = True

    def recover(self) -> None:
        """A step failed half-way: what is booked can't be trusted."""
        self._changes += self._ledger.clear()
        self._touched = True

    def close(self) -> None:
        if self.replay is not None:
            self.replay.close(linger=0)
            self.replay = None

    def _perform(self, actions: Sequence[Action]) -> None:
        self._touched = self._touched or bool(actions)
        for action in actions:
            match action:
                case Apply(batch):
                    for event in batch.events:
                        self._changes += self._ledger.apply(event)
                    self._ignored.update(batch.ignored)
                case Clear():
                    self._changes += self._ledger.clear()
                case Ask(start):
                    self._ask(start)
        if self.replay is not None and not self._feed.replaying:
            self.close()

    def _ask(self, start: int) -> None:
        self.close()
        endpoint = self.subscription.replay_endpoint
        assert endpoint is not None, "the feed asks only where there is a replay"
        self.replay = self._context.socket(zmq.DEALER)
        self.replay.setsockopt(zmq.RCVHWM, 0)
        self.replay.connect(endpoint)
        self.replay.send_multipart([b"", start.to_bytes(_NUMBER_BYTES, "big")])
