"""The physical KV blocks of one engine: references, the free list, and which block holds which hash."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from loadtest.replica.kv_events import MEDIUM_GPU, AllBlocksCleared, BlockRemoved, KVEvent


class Block:
    """One physical block. `hash` is None while its contents can't be found by others."""

    __slots__ = ("hash", "index", "references")

    def __init__(self, index: int) -> None:
        self.index = index
        self.references = 0
        self.hash: int | None = None


class BlockPool:
    """vLLM's block pool: a block that nobody references stays findable until it is reused.

    The free list is ordered by reuse: blocks without a hash first, then cached ones, least recently freed first.
    Two blocks may carry one hash (twins): each is announced, and each is removed, on its own.
    """

    def __init__(self, blocks: int) -> None:
        """blocks: physical blocks, >= 2; one of them is the null block and never given out."""
        if blocks < 2:
            raise ValueError(f"a pool needs at least 2 blocks, one of them the null block; got {blocks}")
        self._blocks = [Block(index) for index in range(blocks)]
        self._free: OrderedDict[int, Block] = OrderedDict((block.index, block) for block in self._blocks[1:])
        self._by_hash: dict[int, dict[int, Block]] = {}
        self.group = 0
        """KV-cache group under which removals are told"""
        self.events: list[KVEvent] = []
        """what happened and was not yet published, in order; the owner empties it"""

    @property
    def usable(self) -> int:
        """Blocks that can be given out."""
        return len(self._blocks) - 1

    @property
    def free(self) -> int:
        """Blocks that nobody references, cached or not."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the usable blocks that running requests reference, 0-1. Cached blocks alone count as free."""
        return 1 - len(self._free) / self.usable

    def cached_hashes(self) -> dict[int, int]:
        """How many blocks carry each hash."""
        return {name: len(twins) for name, twins in self._by_hash.items()}

    def find(self, name: int) -> Block | None:
        """The first of the blocks that carry a hash."""
        twins = self._by_hash.get(name)
        return next(iter(twins.values())) if twins else None

    def take(self, count: int) -> list[Block]:
        """Give out the `count` blocks that are next for reuse; announces those that were findable.

        Raises ValueError if fewer are free.
        """
        if count > len(self._free):
            raise ValueError(f"{count} blocks wanted, {len(self._free)} free")
        taken = [self._free.popitem(last=False)[1] for _ in range(count)]
        for block in taken:
            if block.hash is not None:
                self._forget(block, block.hash)
            block.references = 1
        return taken

    def share(self, blocks: Iterable[Block]) -> None:
        """Reference blocks that were found, one more time each."""
        for block in blocks:
            if block.references == 0:
                del self._free[block.index]
            block.references += 1

    def name(self, block: Block, name: int) -> None:
        """Make a full block findable."""
        block.hash = name
        self._by_hash.setdefault(name, {})[block.index] = block

    def release(self, blocks: Sequence[Block]) -> None:
        """Drop one reference each. blocks: in the order in which they shall be reused."""
        unnamed: list[Block] = []
        for block in blocks:
            block.references -= 1
            if block.references:
                continue
            if block.hash is None:
                unnamed.append(block)
            else:
                self._free[block.index] = block
        for block in reversed(unnamed):
            self._free[block.index] = block
            self._free.move_to_end(block.index, last=False)

    def clear(self) -> bool:
        """Forget every hash, unless a block is in use; returns whether it was done."""
        if len(self._free) != self.usable:
            return False
        self._by_hash.clear()
        for block in self._blocks:
            block.hash = None
        self.events.append(AllBlocksCleared())
        return True

    def _forget(self, block: Block, name: int) -> None:
        twins = self._by_hash[name]
        del twins[block.index]
        if not twins:
            del self._by_hash[name]
        block.hash = None
        self.events.append(BlockRemoved([name], MEDIUM_GPU, group_idx=self.group))
