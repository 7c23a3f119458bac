"""An engine that does anything a cache can do, at random, and tells of it in KV events: the truth to compare with."""

from collections import Counter
from collections.abc import Sequence
from random import Random

from routing.blocks import block_hashes, root_hash
from routing.events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent
from routing.types import BlockHash, EngineHash, Tier

SECRET, MODEL, SIZE = b"", "m", 2
_ROOT = root_hash(SECRET, MODEL, SIZE)

Text = tuple[int, ...]
"""a block's content and that of all before it, one token for each block"""


class ToldEngine:
    """A multiset of what is held, by tier and content. seed: of its hashes, which differ between engines."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.held: Counter[tuple[Tier, Text]] = Counter()

    def step(self, random: Random, texts: Sequence[Text]) -> list[KVEvent]:
        """Do something. texts: prompts to choose from."""
        kind = random.choices(("store", "twin", "evict", "offload", "drop", "clear"), (40, 8, 30, 15, 6, 1))[0]
        if kind in ("store", "twin"):
            return self._store(random.choice(texts), random.randrange(3) if kind == "twin" else 99)
        if kind == "clear":
            self.held = Counter({place: count for place, count in self.held.items() if place[0] is Tier.CPU})
            return [AllBlocksCleared()]
        tier = Tier.CPU if kind == "drop" else Tier.GPU
        blocks = sorted(text for place, text in self.held if place is tier)
        if not blocks:
            return []
        if kind == "offload":
            return self._offload(random.choice(blocks))
        # The tail of something goes first, and now and then what is in the middle.
        chosen = random.choice(blocks)
        tail = max((text for text in blocks if text[: len(chosen)] == chosen), key=len)
        return self._remove(tier, chosen if random.random() < 0.1 else tail)

    def restart(self) -> None:
        """It begins again with nothing and tells nothing of that."""
        self.held.clear()

    def depths(self, text: Text) -> tuple[int, int]:
        """How many leading blocks are in the GPU, and how many in any tier."""
        in_gpu, in_any = 0, 0
        while in_gpu < len(text) and self.held[Tier.GPU, text[: in_gpu + 1]]:
            in_gpu += 1
        while in_any < len(text) and any(self.held[tier, text[: in_any + 1]] for tier in (Tier.GPU, Tier.CPU)):
            in_any += 1
        return in_gpu, in_any

    def _store(self, text: Text, readable: int) -> list[KVEvent]:
        read = 0
        while read < min(readable, len(text)) and self.held[Tier.GPU, text[: read + 1]]:
            read += 1
        new = [text[: end + 1] for end in range(read, len(text))]
        # A second copy from position 0 can't be told from a report of what is held (`routing.ledger`).
        if not new or (not read and any(self.held[Tier.GPU, block] for block in new)):
            return []
        self.held.update((Tier.GPU, block) for block in new)
        parent = self._hash(text[:read]) if read else None
        tokens = [token for block in new for token in _tokens(block)]
        return [BlockStored(list(map(self._hash, new)), parent, tokens, SIZE, Tier.GPU, None, None)]

    def _offload(self, block: Text) -> list[KVEvent]:
        if self.held[Tier.CPU, block]:
            return []
        self.held[Tier.CPU, block] += 1
        return [BlockStored([self._hash(block)], None, [], 0, Tier.CPU, None, None)]

    def _remove(self, tier: Tier, block: Text) -> list[KVEvent]:
        self.held[tier, block] -= 1
        if not self.held[tier, block]:
            del self.held[tier, block]
        return [BlockRemoved([self._hash(block)], tier)]

    def _hash(self, block: Text) -> EngineHash:
        return EngineHash(hash((self._seed, block)) % 2**64)


def chain(text: Text) -> list[BlockHash]:
    """The names of a prompt's blocks."""
    return block_hashes([token for token in text for _ in range(SIZE)], SIZE, _ROOT)


def _tokens(block: Text) -> list[int]:
    return [block[-1]] * SIZE
