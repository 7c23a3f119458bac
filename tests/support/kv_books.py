"""Feed, ledger and index of one engine, without sockets: messages go in as bytes."""

from collections import Counter
from collections.abc import Sequence

import msgspec
from recorded import Message

from gateway.kv.actions import Action, Apply, Ask, Clear
from gateway.kv.feed import Feed
from routing.index import PrefixIndex
from routing.ledger import Change, Drop, Ledger, Put, Wipe
from routing.types import BlockHash, EngineId, PrefixMatch, ReplicaId, Tier

SECRET, MODEL = b"", "m"
ENGINE = EngineId(ReplicaId("127.0.0.1:8000"), 0)


class Books:
    """What is known of an engine."""

    def __init__(self, *, replayable: bool = False, host_tokens: int = 0) -> None:
        self.feed = Feed(replayable=replayable)
        self.ledger = Ledger(SECRET, MODEL, host_tokens=host_tokens)
        self.index = PrefixIndex()
        self.held: dict[Tier, set[BlockHash]] = {Tier.GPU: set(), Tier.CPU: set()}
        self.ignored: Counter[str] = Counter()
        self.asked: list[int] = []
        """first numbers of the replays asked for"""
        self.perform(self.feed.start(0.0))

    def live(self, messages: Sequence[Message]) -> "Books":
        for message in messages:
            self.perform(self.feed.live(message.seq, message.payload, 0.0))
        return self

    def tell(self, seq: int, *events: object) -> None:
        """A message comes as published."""
        self.perform(self.feed.live(seq, payload(seq, *events), 0.0))

    def answer(self, seq: int, *events: object) -> None:
        """A message of a replay comes."""
        self.perform(self.feed.replayed(seq, payload(seq, *events), 0.0))

    def answered(self) -> None:
        """The replay ends."""
        self.perform(self.feed.replay_ended(0.0))

    def perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Clear():
                    self._take(self.ledger.clear())
                case Apply(batch):
                    self.ignored.update(batch.ignored)
                    for event in batch.events:
                        self._take(self.ledger.apply(event))
                case Ask(start):
                    self.asked.append(start)

    def blocks(self) -> tuple[int, int]:
        return len(self.held[Tier.GPU]), len(self.held[Tier.CPU])

    def prefix(self, blocks: Sequence[BlockHash], most: int | None = None) -> PrefixMatch:
        """How many leading ones it can use, if it looks up `most`."""
        return self.index.match(blocks, most).get(ENGINE, PrefixMatch(0, 0))

    def _take(self, changes: Sequence[Change]) -> None:
        self.index.apply(ENGINE, changes)
        for change in changes:
            if isinstance(change, Put):
                self.held[change.tier] |= set(change.blocks)
            elif isinstance(change, Drop):
                self.held[change.tier] -= set(change.blocks)
            elif isinstance(change, Wipe):
                for tier in self.held if change.tier is None else [change.tier]:
                    self.held[tier].clear()


def payload(seq: int, *events: object) -> bytes:
    """A batch; the engine's clock goes with its numbers."""
    return msgspec.msgpack.encode([float(seq), events, 0])
