"""Simulated engines whose events reach an index as bytes, through a stream that loses some, and the truth beside it."""

from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from random import Random
from typing import Protocol

import msgspec

from gateway.kv.actions import Action, Apply, Ask, Clear
from gateway.kv.feed import Feed
from gateway.kv.position import Kept
from loadtest.replica.engine import Engine
from loadtest.replica.host_tier import HostSettings, HostTier, Teller
from loadtest.replica.kv_events import EventBatch
from loadtest.replica.request import Request
from loadtest.replica.timing import PROFILES
from routing.blocks import block_hashes, root_hash
from routing.changes import Change
from routing.journal import Journal
from routing.ledger import Ledger
from routing.types import BlockHash, EngineId, PrefixMatch, ReplicaId

SECRET, MODEL, SIZE = b"", "m", 4
ROOT = root_hash(SECRET, MODEL, SIZE)
BLOCKS = 48
HOST = (None, HostSettings(64, Teller.OFFLOADING), HostSettings(64, Teller.DESCRIBING))
_PROFILE = PROFILES["llama-8b-h100"]


class Index(Protocol):
    """What a stream's effect goes into."""

    def apply(self, engine: EngineId, changes: Sequence[Change]) -> None:
        """Take in what has changed."""

    def forget(self, engine: EngineId) -> None:
        """The engine left."""


class Replica:
    """One engine, its stream, and what the gateway has booked of it."""

    def __init__(self, number: int, index: Index, random: Random, *, recorded: bool = False) -> None:
        """recorded: what changes in the books is told too."""
        self.id = EngineId(ReplicaId(f"10.0.0.{number}:8000"), 0)
        self.joined = False
        self._index = index
        self._recorded = recorded
        self._whole = False
        self._random = random
        self._host = HOST[number % len(HOST)]
        self.replayable = number % 8 != 7
        self._kept = 12 if number % 4 == 1 else 100_000
        self._now = 0.0
        self.start()

    def start(self) -> None:
        """A new process."""
        host = HostTier(self._host, self._random.randrange(2**32)) if self._host else None
        self.engine = Engine(_PROFILE, BLOCKS, SIZE, token_budget=64, host=host)
        self._seq = 0
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=self._kept)

    def join(self, kept: Kept | None = None) -> None:
        """A gateway begins to follow it. kept: what the one before has left."""
        self.joined = True
        self.feed = Feed(replayable=self.replayable, patience=5.0, quiet=20.0, kept=kept.position if kept else None)
        self.ledger = Ledger(SECRET, MODEL, journal=Journal() if self._recorded else None)
        if kept:
            self._index.apply(self.id, self.ledger.restore(kept.books))
        else:
            self._whole = (self.replayable or not self._seq) and (not self._buffer or self._buffer[0][0] == 0)
        self._perform(self.feed.start(self._now))
        self._perform(self.feed.connected(self._now))

    def leave(self) -> None:
        """The gateway follows it no longer, and it is forgotten."""
        self.joined = False
        self._index.forget(self.id)

    def lose_gateway(self) -> None:
        """Nobody follows it any more."""
        self.joined = False

    def restart(self) -> None:
        """It dies, and another comes up in its place."""
        self.start()
        if self.joined:
            self._perform(self.feed.connected(self._now))
            self._whole = self.replayable

    def serve(self, prompts: Sequence[Sequence[int]], salt: str | None, *, loss: float) -> None:
        """Compute prompts side by side, and a word after, with which all that happened is told."""
        for prompt in prompts:
            self.engine.add(Request("r", prompt, [7] * self._random.randint(1, 9), SIZE, salt=salt))
        self._step(loss)
        self.engine.add(Request("r", [1], [1, 2], SIZE))
        self._step(loss)

    def reset(self) -> None:
        self.engine.reset_prefix_cache()

    def wait(self, seconds: float) -> None:
        """Time passes; silence is checked."""
        self._now += seconds
        if self.joined:
            self._perform(self.feed.tick(self._now))

    @property
    def settled(self) -> bool:
        """Whether the gateway has heard all there is, or knows that it has not."""
        last = self.feed.counters.last_seq
        return not self.feed.replaying and (-1 if last is None else last) == self._seq - 1

    @property
    def whole(self) -> bool:
        """Whether nothing of this process was lost for good."""
        return self._whole

    def truth(self, hashes: Sequence[int]) -> PrefixMatch:
        """How much the engine holds of a prompt. hashes: what engines call its blocks."""
        pool, host = self.engine.cache.pool, self.engine.host
        l0 = sum(1 for _ in takewhile(pool.find, hashes))
        if host is None:
            return PrefixMatch(l0, l0)
        return PrefixMatch(l0, sum(1 for _ in takewhile(lambda name: pool.find(name) or host.holds(name), hashes)))

    def _step(self, loss: float) -> None:
        while step := self.engine.start_step():
            events = self.engine.finish_step(step).events
            if not events:
                continue
            sent = self._seq, msgspec.msgpack.encode(EventBatch(float(self._seq), events, 0))
            self._seq += 1
            self._buffer.append(sent)
            if self.joined and self._random.random() >= loss:
                self._perform(self.feed.live(*sent, self._now))

    def _perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Apply(batch):
                    changes = [change for event in batch.events for change in self.ledger.apply(event)]
                    self._index.apply(self.id, changes)
                case Clear():
                    self._index.apply(self.id, self.ledger.clear())
                    self._whole = False
                case Ask(start):
                    self._answer(start)

    def _answer(self, start: int) -> None:
        """The replay that was asked for."""
        # What is asked on the way replaces this answer; it is answered by its own call.
        for seq, payload in [sent for sent in self._buffer if sent[0] >= start]:
            actions = self.feed.replayed(seq, payload, self._now)
            self._perform(actions)
            if any(isinstance(action, Ask) for action in actions):
                return
        self._perform(self.feed.replay_ended(self._now))


def engine_names(prompt: Sequence[int], salt: str | None) -> Sequence[int]:
    """What the engines call a prompt's blocks."""
    return Request("r", prompt, [1], SIZE, salt=salt).hashes


def names(prompt: Sequence[int], salt: str | None) -> Sequence[BlockHash]:
    """What the index calls a prompt's blocks."""
    return block_hashes(prompt, SIZE, root_hash(SECRET, MODEL, SIZE, salt=salt))
