"""Simulated engines whose events reach an index as bytes, through a stream that loses some, and the truth beside it."""

from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from random import Random

import msgspec

from gateway.kv.actions import Action, Apply, Ask, Clear
from gateway.kv.feed import Feed
from loadtest.replica.engine import Engine
from loadtest.replica.host_tier import HostSettings, HostTier, Teller
from loadtest.replica.kv_events import EventBatch
from loadtest.replica.request import Request
from loadtest.replica.timing import PROFILES
from routing.blocks import block_hashes, root_hash
from routing.index import PrefixIndex
from routing.ledger import Ledger
from routing.types import BlockHash, EngineId, PrefixMatch, ReplicaId

SECRET, MODEL, SIZE = b"", "m", 4
ROOT = root_hash(SECRET, MODEL, SIZE)
BLOCKS = 48
HOST = (None, HostSettings(64, Teller.OFFLOADING), HostSettings(64, Teller.DESCRIBING))
_PROFILE = PROFILES["llama-8b-h100"]


class Replica:
    """One engine, its stream, and what the gateway has booked of it."""

    def __init__(self, number: int, index: PrefixIndex, random: Random) -> None:
        self.id = EngineId(ReplicaId(f"10.0.0.{number}:8000"), 0)
        self.joined = False
        self._index = index
        self._random = random
        self._host = HOST[number % len(HOST)]
        self._replayable = number % 8 != 7
        self._kept = 12 if number % 4 == 1 else 100_000
        self._now = 0.0
        self.start()

    def start(self) -> None:
        """A new process."""
        host = HostTier(self._host, self._random.randrange(2**32)) if self._host else None
        self.engine = Engine(_PROFILE, BLOCKS, SIZE, token_budget=64, host=host)
        self._seq = 0
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=self._kept)

    def join(self) -> None:
        """The gateway begins to follow it."""
        self.joined = True
        self._feed = Feed(replayable=self._replayable, patience=5.0, quiet=20.0)
        self._ledger = Ledger(SECRET, MODEL)
        self._whole = self._replayable or not self._seq
        self._perform(self._feed.start(self._now))
        self._perform(self._feed.connected(self._now))
        self._whole &= not self._buffer or self._buffer[0][0] == 0

    def leave(self) -> None:
        """The gateway follows it no longer."""
        self.joined = False
        self._index.forget(self.id)

    def restart(self) -> None:
        """It dies, and another comes up in its place."""
        self.start()
        if self.joined:
            self._whole = True
            self._perform(self._feed.connected(self._now))

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
            self._perform(self._feed.tick(self._now))

    @property
    def settled(self) -> bool:
        """Whether the gateway has heard all there is, or knows that it has not."""
        last = self._feed.counters.last_seq
        return not self._feed.replaying and (-1 if last is None else last) == self._seq - 1

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
                self._perform(self._feed.live(*sent, self._now))

    def _perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Apply(batch):
                    changes = [change for event in batch.events for change in self._ledger.apply(event)]
                    self._index.apply(self.id, changes)
                case Clear():
                    self._index.apply(self.id, self._ledger.clear())
                    self._whole = False
                case Ask(start):
                    self._answer(start)

    def _answer(self, start: int) -> None:
        """The replay that was asked for."""
        # What is asked on the way replaces this answer; it is answered by its own call.
        for seq, payload in [sent for sent in self._buffer if sent[0] >= start]:
            actions = self._feed.replayed(seq, payload, self._now)
            self._perform(actions)
            if any(isinstance(action, Ask) for action in actions):
                return
        self._perform(self._feed.replay_ended(self._now))


def engine_names(prompt: Sequence[int], salt: str | None) -> Sequence[int]:
    """What the engines call a prompt's blocks."""
    return Request("r", prompt, [1], SIZE, salt=salt).hashes


def names(prompt: Sequence[int], salt: str | None) -> Sequence[BlockHash]:
    """What the index calls a prompt's blocks."""
    return block_hashes(prompt, SIZE, root_hash(SECRET, MODEL, SIZE, salt=salt))
