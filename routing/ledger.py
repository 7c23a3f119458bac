"""One engine's event history -> what it holds: engine hashes resolved to ours, copies counted."""

from collections.abc import Sequence
from functools import partial

from routing.blocks import block_hashes, extended_block_hashes, root_hash
from routing.books import Books, Entries, Traits
from routing.changes import Change, Drop, Put, Wipe
from routing.chunks import Chunks, ChunkStored
from routing.events import BlockRemoved, BlockStored, KVEvent
from routing.groups import WHOLE_KINDS, Groups
from routing.holdings import Holdings
from routing.journal import Journal
from routing.names import Names, named
from routing.types import BlockHash, EngineHash, Tier
from routing.waiting import Waiting

__all__ = ["Change", "Drop", "Ledger", "Put", "Wipe"]


class Ledger:
    """The books of one engine. What is uncertain counts as not held: knowing less is slow, knowing wrong is harmful.

    * A hash gets its name from an event of the GPU pool, which tells tokens, parent, salt and extras. Events of other
      tiers tell less (vLLM's offloading leaves out salt and images), so they only refer to names, in any order.
    * A range that follows an unknown block waits until that block has a name.
    * A range that starts at position 0 adds no second copy of a block: that is how vLLM reports a hit under
      `kv_cache_report_mode: full`, and it looks the same as a twin. A true twin from there (a prompt that may not read
      the cache) is then counted once and given up with its first removal.

    secret, model: what names depend on (`blocks.root_hash`).
    remembered, journal: see `Names`.
    waiting: blocks without a name kept at most.
    host_tokens: what LMCache inside the engine keeps in host memory. It does not say what it drops, so its chunks count
      up to this many tokens, and not at all if that is 0.
    """

    def __init__(
        self, secret: bytes, model: str, *, remembered: int = 8192, waiting: int = 16384, host_tokens: int = 0,
        journal: Journal | None = None,
    ) -> None:  # fmt: skip
        self._secret = secret
        self._model = model
        self._names = Names(remembered, journal)
        self._holdings = Holdings()
        self._waiting = Waiting(waiting)
        self._chunks = Chunks(host_tokens)
        self._groups = Groups()
        self._block_size: int | None = None
        self.looks_ahead = False
        """the engine takes a block only if what follows is the same too, which is not judged here"""
        self.stored_in_storage = 0
        """blocks announced in tier STORAGE so far; they change nothing here"""
        self.unplaced = 0
        """blocks announced so far whose tokens or extras don't fit their hashes; they change nothing here"""

    @property
    def block_size(self) -> int | None:
        """Tokens per block; None until a GPU block was stored."""
        return self._block_size

    @property
    def unjudged_groups(self) -> frozenset[int]:
        """KV-cache groups that can shorten a hit and are not judged: with any, a prefix found is an upper bound."""
        return self._groups.unjudged(self._block_size)

    @property
    def windowed_groups(self) -> frozenset[int]:
        """Those whose changes are `WindowPut` and `WindowDrop`."""
        return self._groups.windowed

    @property
    def orphans(self) -> int:
        """Blocks held that have no name."""
        return len(self._waiting)

    def apply(self, event: KVEvent | ChunkStored) -> list[Change]:
        """Book one event. Returns what changed, in order."""
        if isinstance(event, BlockStored):
            return self._store(event)
        if isinstance(event, BlockRemoved):
            return self._remove(event)
        if isinstance(event, ChunkStored):
            return self._store_chunk(event)
        return self._reset_gpu()

    def entries(self) -> Entries:
        """What has changed in the books since the last call. There must be a journal."""
        judged = tuple(self._holdings.judged)
        traits = Traits(self._block_size, judged, self._names.offloads, self._chunks.used, self.looks_ahead)
        return self._names.entries(self._holdings, traits)

    def whole(self) -> list[Change]:
        """All that is booked, for a place that has nothing of it; the next entries are all too."""
        self._names.touch(self._names)
        in_cpu = list({*self._holdings.blocks(Tier.CPU), *self._chunks.blocks()})
        return [Wipe(None), Put(Tier.GPU, self._holdings.blocks(Tier.GPU)), Put(Tier.CPU, in_cpu)]

    def restore(self, books: Books) -> list[Change]:
        """Go on from books kept elsewhere. To be called first. Returns what of them can't be gone on with."""
        self._block_size, self.looks_ahead = books.traits.block_size, books.traits.looks_ahead
        self._holdings.restore(books)
        self._names.restore(books, self._holdings)
        return [Wipe(Tier.CPU)] if books.traits.chunks else []

    def clear(self) -> list[Change]:
        """Forget all that the engine holds: it restarted, or events were lost."""
        self._names.clear()
        self._holdings.clear()
        self._waiting.clear()
        self._chunks.clear()
        return [Wipe(None)]

    def _store(self, event: BlockStored) -> list[Change]:
        if event.tier is Tier.STORAGE:
            self.stored_in_storage += len(event.hashes)
            return []
        if event.kind not in WHOLE_KINDS:
            return self._store_partly(event)
        if not event.hashes:
            return []
        if event.tier is not Tier.GPU or not event.tokens:
            return self._refer(event.tier, event.group, event.hashes)
        self.looks_ahead |= event.looks_ahead
        changes: list[Change] = []
        if not self._fits(event, changes):
            return changes
        if event.parent is None:
            return changes + self._put_first(event)
        parent = self._names.get(event.parent)
        if parent is None:
            self._waiting.park(event)
            self._waiting.add((event.tier, event.group), event.hashes)
            return changes
        changes += self._put(event.tier, event.group, self._name(event, parent))
        if self._waiting:
            changes += self._settle(event.hashes)
        return changes

    def _put_first(self, event: BlockStored) -> list[Change]:
        """Book a range that starts at position 0."""
        present = [self._is_counted(event.tier, event.group, hash_) for hash_ in event.hashes]
        root = root_hash(self._secret, self._model, event.block_size, adapter=event.adapter, salt=event.salt)
        blocks = self._name(event, root)
        changes = self._settle(event.hashes) if self._waiting else []
        new = [block for block, was in zip(blocks, present, strict=True) if not was]
        return changes + self._put(event.tier, event.group, new)

    def _refer(self, tier: Tier, group: int, hashes: Sequence[EngineHash]) -> list[Change]:
        """Book blocks by their hashes alone."""
        self._names.touch(hashes)
        self._names.offloads |= tier is not Tier.GPU
        blocks, nameless = named(hashes, self._names.look_up(hashes))
        if nameless:
            self._waiting.add((tier, group), nameless)
        return self._put(tier, group, blocks)

    def _store_partly(self, event: BlockStored) -> list[Change]:
        """Book blocks of a group that keeps only some of a range; full attention names them."""
        if event.tier is not Tier.GPU or not self._groups.learn(event):
            self._groups.unplaced.add(event.group)
            return []
        self._holdings.keep_apart(event.group)
        hashes = event.hashes
        if event.parent is None:
            hashes = [hash_ for hash_ in hashes if not self._is_counted(event.tier, event.group, hash_)]
        return self._refer(event.tier, event.group, hashes)

    def _remove(self, event: BlockRemoved) -> list[Change]:
        if event.tier is Tier.STORAGE:
            return []
        self._names.touch(event.hashes)
        found = self._names.look_up(event.hashes)
        blocks, nameless = named(event.hashes, found)
        dropped = self._holdings.remove(event.tier, event.group, blocks)
        for hash_ in nameless:
            if event.tier is Tier.CPU and hash_ in self._chunks:
                dropped += self._chunks.remove(hash_)
            else:
                self._waiting.remove((event.tier, event.group), hash_)
        self._names.retire(event.hashes, found, self._holdings)
        return self._groups.drop(event.tier, event.group, dropped)

    def _store_chunk(self, chunk: ChunkStored) -> list[Change]:
        size = self._block_size
        if size is None:
            return []
        root = root_hash(self._secret, self._model, size)
        new, gone = self._chunks.store(chunk, size, root, partial(self._holdings.held, Tier.GPU))
        self.unplaced += 0 if chunk.hash in self._chunks else 1
        return [*([Drop(Tier.CPU, gone)] if gone else []), *([Put(Tier.CPU, new)] if new else [])]

    def _reset_gpu(self) -> list[Change]:
        self._holdings.wipe(Tier.GPU)
        self._waiting.wipe(Tier.GPU)
        self._names.touch(self._names)
        self._names.retire(list(self._names), list(self._names.values()), self._holdings)
        return [Wipe(Tier.GPU)]

    def _fits(self, event: BlockStored, changes: list[Change]) -> bool:
        """Whether the event's tokens are blocks of this engine. Learns their size; adds to `changes` if that is new."""
        size, group = event.block_size, event.group
        fits = len(event.tokens) == len(event.hashes) * size and len(event.extras) in (0, len(event.hashes))
        if not fits or (self._block_size not in (None, size) and not self._holdings.judges(group)):
            self._groups.unplaced.add(group)
            self.unplaced += len(event.hashes)
            return False
        if self._block_size != size:
            if self._block_size is not None:
                changes += self.clear()
            self._block_size = size
        if not self._holdings.judges(group):
            self._names.touch(self._names)
            changes += [Wipe(tier) for tier in self._holdings.judge(group)]
        return True

    def _name(self, event: BlockStored, parent: BlockHash) -> list[BlockHash]:
        if event.extras:
            blocks = extended_block_hashes(event.tokens, event.block_size, parent, event.extras)
        else:
            blocks = block_hashes(event.tokens, event.block_size, parent)
        self._names.give(event.hashes, blocks)
        self._chunks.see(event.tokens, event.block_size, parent, blocks)
        return blocks

    def _settle(self, hashes: Sequence[EngineHash]) -> list[Change]:
        """Give what waits for these names its place, and what follows it in turn."""
        changes: list[Change] = []
        named = list(hashes)
        followers: list[EngineHash] = []
        while named:
            hash_ = named.pop()
            block = self._names[hash_]
            for (tier, group), copies in self._waiting.take_copies(hash_).items():
                changes += self._put(tier, group, [block] * copies)
            for event in self._waiting.take_followers(hash_):
                self._name(event, block)
                named += event.hashes
                followers += event.hashes
        # Some were removed while they waited: names without a block.
        self._names.retire(followers, self._names.look_up(followers), self._holdings)
        return changes

    def _is_counted(self, tier: Tier, group: int, hash_: EngineHash) -> bool:
        block = self._names.get(hash_)
        return self._waiting.has((tier, group), hash_) if block is None else self._holdings.has(tier, group, block)

    def _put(self, tier: Tier, group: int, blocks: Sequence[BlockHash]) -> list[Change]:
        return self._groups.put(tier, group, self._holdings.add(tier, group, blocks))
