"""Chunks that LMCache keeps in host memory: larger than blocks, under hashes of its own, with less told about them."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from routing.blocks import block_hashes
from routing.types import BlockHash, EngineHash

_ANY_PARENT = BlockHash(0)
_REMEMBERED = 8192


@dataclass(frozen=True, slots=True)
class ChunkStored:
    """A chunk was put into host memory."""

    hash: EngineHash
    """LMCache's; of no use among the engine's"""
    parent: EngineHash | None
    """the chunk before; None at position 0; from inside the engine 0 where a prompt is continued"""
    tokens: Sequence[int]
    """of the chunk alone"""
    from_server: bool
    """LMCache's server keeps salts apart and announces removals; LMCache inside the engine does neither"""


class Chunks:
    """Which blocks lie in host memory as parts of whole chunks.

    A chunk finds its place by its parent or by its content. It is a copy of blocks that the GPU announced shortly
    before, so a place counts only if the GPU holds its blocks. Inside the engine that is not asked of a chunk whose
    parents are known down to position 0: it serves prompts with and without a salt.

    capacity: tokens credited of chunks whose removal is not announced; the oldest make room for the newest.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._places: dict[EngineHash, list[Sequence[BlockHash]]] = {}
        self._copies: dict[BlockHash, int] = {}
        self._ages: OrderedDict[EngineHash, int] = OrderedDict()
        self._aging = 0
        self._parents: OrderedDict[BlockHash, set[BlockHash]] = OrderedDict()
        self._latest: tuple[Sequence[int], int, BlockHash, Sequence[BlockHash]] | None = None
        self._used = False

    @property
    def used(self) -> bool:
        """Whether any chunk was announced."""
        return self._used

    def blocks(self) -> Iterable[BlockHash]:
        """All that lie in host memory as parts of chunks."""
        return self._copies

    def __contains__(self, hash_: EngineHash) -> bool:
        return hash_ in self._places

    def see(self, tokens: Sequence[int], block_size: int, parent: BlockHash, blocks: Sequence[BlockHash]) -> None:
        """Remember what a stretch of GPU blocks contains; before there are chunks, the latest only.

        parent: the block before the first one.
        """
        if not self._used:
            self._latest = tokens, block_size, parent, blocks
            return
        before = [parent, *blocks[:-1]]
        for start, name in zip(range(0, len(tokens), block_size), before, strict=True):
            content = _content(tokens[start : start + block_size])
            self._parents.setdefault(content, set()).add(name)
        while len(self._parents) > _REMEMBERED:
            self._parents.popitem(last=False)

    def store(
        self, chunk: ChunkStored, block_size: int, root: BlockHash, in_gpu: Callable[[BlockHash], bool]
    ) -> tuple[Sequence[BlockHash], Sequence[BlockHash]]:
        """Book a chunk. root: of prompts without adapter and salt.

        Returns the blocks that are in host memory now and were not, and those that had to make room.
        """
        if not self._used:
            self._used = True
            if self._latest is not None:
                self.see(*self._latest)
        blocks = self._place(chunk, block_size, root, in_gpu)
        if blocks is None:
            return (), ()
        new = self._add(chunk.hash, blocks)
        if chunk.from_server:
            return new, ()
        self._aging += len(chunk.tokens) - self._ages.pop(chunk.hash, 0)
        self._ages[chunk.hash] = len(chunk.tokens)
        gone: list[BlockHash] = []
        while self._aging > self._capacity:
            oldest, tokens = self._ages.popitem(last=False)
            self._aging -= tokens
            gone += self.remove(oldest)
        return new, gone

    def remove(self, hash_: EngineHash) -> Sequence[BlockHash]:
        """A chunk is gone. Returns the blocks that are in host memory no longer."""
        gone: list[BlockHash] = []
        for blocks in self._places.pop(hash_, ()):
            for block in blocks:
                self._copies[block] -= 1
                if not self._copies[block]:
                    del self._copies[block]
                    gone.append(block)
        return gone

    def clear(self) -> None:
        self._places.clear()
        self._copies.clear()
        self._ages.clear()
        self._parents.clear()
        self._aging = 0
        self._latest = None

    def _place(
        self, chunk: ChunkStored, block_size: int, root: BlockHash, in_gpu: Callable[[BlockHash], bool]
    ) -> Sequence[BlockHash] | None:
        if not chunk.tokens or len(chunk.tokens) % block_size or not (chunk.from_server or self._capacity):
            return None
        following = [blocks[-1] for blocks in self._places.get(chunk.parent, ())] if chunk.parent is not None else []
        if not chunk.from_server and (following or chunk.parent is None):
            return block_hashes(chunk.tokens, block_size, following[0] if following else root)
        alike: Iterable[BlockHash] = self._parents.get(_content(chunk.tokens[:block_size]), ())
        for parent in (*following, *alike):
            blocks = block_hashes(chunk.tokens, block_size, parent)
            if all(map(in_gpu, blocks)):
                return blocks
        return None

    def _add(self, hash_: EngineHash, blocks: Sequence[BlockHash]) -> Sequence[BlockHash]:
        places = self._places.setdefault(hash_, [])
        if blocks in places:
            return ()
        places.append(blocks)
        new = [block for block in blocks if block not in self._copies]
        for block in blocks:
            self._copies[block] = self._copies.get(block, 0) + 1
        return new


def _content(tokens: Sequence[int]) -> BlockHash:
    return block_hashes(tokens, len(tokens), _ANY_PARENT)[0]
