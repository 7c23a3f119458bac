"""What an engine holds, computed from its whole event history by other means than the gateway's.

Everything is asked of the engine itself: the events from its replay socket, from the first one on, and nothing is kept
between two questions. It counts copies by the engine's own hashes; it never computes a hash.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import zmq

REPLAY_TIMEOUT_MS = 5000

EngineHash = int
Place = tuple[EngineHash | None, tuple[int, ...], str | None]
"""Where a block stands in a prompt: the block before it, its own tokens, and its cache salt or adapter."""


class StoredOrRemoved(msgspec.Struct):
    """The fields that this file reads of any event of vLLM 0.32."""

    type: str
    block_hashes: list[EngineHash] = []
    parent_block_hash: EngineHash | None = None
    token_ids: list[int] = []
    block_size: int = 0
    medium: str | None = None
    extra_keys: list[list[str] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None


class Batch(msgspec.Struct, array_like=True):
    """What an engine published after one step."""

    time: float
    """wall clock, seconds"""
    events: list[StoredOrRemoved]
    rank: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """A block came to the GPU or left it."""

    time: float
    """wall clock, seconds"""
    block: EngineHash
    stored: bool


@dataclass(slots=True)
class Held:
    """An engine's cache after all events up to `seq`; of a hybrid model, in layers that look back all the way."""

    seq: int = -1
    """of the last batch; -1 before the first"""
    block_size: int = 0
    copies: Counter[tuple[str, EngineHash]] = field(default_factory=Counter)
    """by tier's name and hash; vLLM may hold a block twice"""
    names: dict[Place, EngineHash] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    windowed: set[int] = field(default_factory=set)
    """KV-cache groups that are left out"""

    def count(self, tier: str) -> int:
        """Different blocks in a tier (`GPU`, `CPU`, `STORAGE`)."""
        return sum(1 for (place, _), copies in self.copies.items() if place == tier and copies > 0)

    def chain(self, tokens: Sequence[int]) -> Iterator[EngineHash]:
        """The names of a prompt's full blocks, as far as the engine ever announced them; without salt or adapter."""
        parent = None
        for start in range(0, len(tokens) - self.block_size + 1, self.block_size or 1):
            name = self.names.get((parent, tuple(tokens[start : start + self.block_size]), None))
            if name is None:
                return
            yield name
            parent = name

    def cached_tokens(self, tokens: Sequence[int]) -> int:
        """What vLLM would report as cached: full blocks in a row from the first, and never the last token."""
        run = 0
        for name in self.chain(tokens):
            if self.copies["GPU", name] <= 0:
                break
            run += 1
        return min(run, (len(tokens) - 1) // self.block_size) * self.block_size if run else 0

    def apply(self, seq: int, batch: Batch) -> None:
        """Take over the next batch."""
        self.seq = seq
        for event in batch.events:
            if event.kv_cache_spec_kind == "sliding_window" and event.group_idx is not None:
                self.windowed.add(event.group_idx)
            if event.group_idx in self.windowed:
                continue
            match event.type:
                case "BlockStored":
                    self._store(event, batch.time)
                case "BlockRemoved":
                    self._remove(event, batch.time)
                case "AllBlocksCleared":
                    self.history += [Change(batch.time, name, False) for tier, name in self.copies if tier == "GPU"]
                    self.copies = Counter({key: n for key, n in self.copies.items() if key[0] != "GPU"})

    def _store(self, event: StoredOrRemoved, time: float) -> None:
        tier, size = event.medium or "GPU", event.block_size
        self.block_size = self.block_size or size
        parent = event.parent_block_hash
        for index, name in enumerate(event.block_hashes):
            extra = event.extra_keys[index] if event.extra_keys else None
            tokens = tuple(event.token_ids[index * size : (index + 1) * size])
            self.names[parent, tokens, extra[0] if extra else None] = name
            self.copies[tier, name] += 1
            self.history.append(Change(time, name, True))
            parent = name

    def _remove(self, event: StoredOrRemoved, time: float) -> None:
        for name in event.block_hashes:
            self.copies[event.medium or "GPU", name] -= 1
            self.history.append(Change(time, name, False))


def held_by(replay: str) -> Held:
    """Replay an engine's events from its first and add them up.

    replay: address of the engine's replay socket.
    Raises TimeoutError if the engine does not answer, ValueError if its first events are no longer in its buffer.
    """
    held = Held()
    decode = msgspec.msgpack.Decoder(Batch).decode
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        # Left to itself it takes 1,000 messages; the engine's keeps as many more, and drops what comes then.
        socket.set_hwm(0)
        socket.connect(replay)
        socket.send_multipart([b"", (0).to_bytes(8, "big")])
        while True:
            if not socket.poll(REPLAY_TIMEOUT_MS):
                raise TimeoutError(f"no replay from {replay}")
            seq_bytes, payload = socket.recv_multipart()[-2:]
            seq = int.from_bytes(seq_bytes, "big", signed=True)
            if seq == -1:
                return held
            if seq != held.seq + 1:
                raise ValueError(f"{replay} replays {seq} after {held.seq}")
            held.apply(seq, decode(payload))
