"""A prompt's tokens -> the files of its chunks, hashed only as far as somebody asks."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.l2.hashing import Chain, ChunkHash, hex_of
from gateway.l2.names import Naming, Tags
from routing.types import BlockHash

_REMEMBERED = 32_768


@dataclass(frozen=True, slots=True)
class Scheme:
    """How one model's chunks are cut, hashed and named."""

    chunk: int
    """tokens of a chunk"""
    unit: int
    """tokens that are hashed at a time; divides `chunk`. The last unit's hash names the chunk"""
    chain: Chain
    naming: Naming
    salted: bool
    """whether the hash depends on the salt"""


class Memory:
    """Hashes of chunks by the gateway's own hash of the block that ends with the chunk.

    Both depend on all tokens up to there, so a prompt that goes on from one seen before is hashed from there only.
    Used by several threads: each call is one operation on a dictionary.
    """

    def __init__(self, capacity: int = _REMEMBERED) -> None:
        self._capacity = capacity
        self._recent: dict[BlockHash, ChunkHash] = {}
        self._older: dict[BlockHash, ChunkHash] = {}

    def get(self, block: BlockHash) -> ChunkHash | None:
        """The hash, if it is still known."""
        return self._recent.get(block) or self._older.get(block)

    def put(self, block: BlockHash, hash_: ChunkHash) -> None:
        """Remember; the half that was put first is forgotten when it gets too much."""
        if len(self._recent) >= self._capacity // 2:
            self._older, self._recent = self._recent, {}
        self._recent[block] = hash_


class Chunks(Sequence[Sequence[str]]):
    """The files of each full chunk of a prompt, by the chunk's position."""

    def __init__(
        self,
        scheme: Scheme,
        memory: Memory,
        tokens: Sequence[int],
        blocks: Sequence[BlockHash] = (),
        block_size: int = 0,
        salt: str | None = None,
        tags: Tags = (),
    ) -> None:
        """tokens: the prompt. salt, tags: the request's.

        blocks, block_size: the prompt's blocks by the gateway's own hashes; without them nothing is remembered.
        """
        self._scheme = scheme
        self._memory = memory
        self._tokens = tokens
        self._salt = salt
        self._tags = tags
        self._hashes: list[ChunkHash] = []
        per_chunk = scheme.chunk // block_size if block_size and scheme.chunk % block_size == 0 else 0
        self._ends = blocks[per_chunk - 1 :: per_chunk] if per_chunk else ()
        self._recall()

    def __len__(self) -> int:
        return len(self._tokens) // self._scheme.chunk

    def __getitem__(self, index: int) -> Sequence[str]:  # type: ignore[override]  # nobody slices
        """The files of one chunk. Hashes what comes before it, once."""
        return self._scheme.naming.files(self.hash(index), self._salt, self._tags)

    def hash(self, index: int) -> str:
        """A chunk's hash, in hexadecimal."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        while len(self._hashes) <= index:
            self._hash_next()
        return hex_of(self._hashes[index])

    def _recall(self) -> None:
        get = self._memory.get
        for end in self._ends:
            known = get(end)
            if known is None:
                break
            self._hashes.append(known)

    def _hash_next(self) -> None:
        scheme, at = self._scheme, len(self._hashes)
        hash_ = self._hashes[-1] if at else scheme.chain.root
        for start in range(at * scheme.chunk, (at + 1) * scheme.chunk, scheme.unit):
            salt = self._salt if scheme.salted and start == 0 else None
            hash_ = scheme.chain.step(hash_, self._tokens[start : start + scheme.unit], salt)
        self._hashes.append(hash_)
        if at < len(self._ends):
            self._memory.put(self._ends[at], hash_)
