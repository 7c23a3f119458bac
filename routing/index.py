"""Which engine holds which block in which tier, in memory.

One bitmask for each block, two bits for each engine (GPU, CPU). The block hashes are chained, so a prompt's prefix is
held as far as the masks along its chain keep the engine's bit.
"""

from collections.abc import Iterator, Sequence, Set
from typing import Protocol

from routing.ledger import Change, Drop, Put, Wipe
from routing.prefixes import BITS, prefix_matches
from routing.slots import Slots
from routing.types import BlockHash, EngineId, PrefixMatch, Tier
from routing.windows import Windows

_LINEAR_UP_TO = 1024
_PARTS = 32
"""Tables that the masks are kept in, by their blocks' hashes. A single one of a million blocks would stop the event
loop for a tenth of a second whenever it is laid out anew, as a table is that grows, or in which blocks come and go.
"""
INDEXED_TIERS = (Tier.GPU, Tier.CPU)
"""The tiers that belong to one engine; what is shared is asked elsewhere."""


class Holding(Protocol):
    """Who knows how much an engine holds."""

    def held(self, engine: EngineId, tier: Tier) -> int:
        """How many blocks the engine holds in this tier; 0 for an engine that has told nothing."""
        ...


class PrefixIndex:
    """The blocks of all engines that share a namespace's model. Not thread-safe: owned by the event loop."""

    def __init__(self) -> None:
        self._masks: Sequence[dict[BlockHash, int]] = [{} for _ in range(_PARTS)]
        self._slots = Slots[EngineId]()
        self._held: dict[EngineId, tuple[dict[BlockHash, None], ...]] = {}
        """keys only, each with None: as a set they would take up to twice as much room"""
        self._windows = Windows()

    def __len__(self) -> int:
        """Blocks held by any engine in any tier."""
        return sum(map(len, self._masks))

    def held(self, engine: EngineId, tier: Tier) -> int:
        """How many blocks the engine holds in this tier; 0 for an engine that has told nothing."""
        held = self._held.get(engine)
        return len(held[tier]) if held and tier in INDEXED_TIERS else 0

    def blocks(self, engine: EngineId, tier: Tier) -> Set[BlockHash]:
        """The blocks that the engine holds in this tier, as they are now."""
        held = self._held.get(engine)
        return held[tier].keys() if held and tier in INDEXED_TIERS else frozenset()

    def apply(self, engine: EngineId, changes: Sequence[Change]) -> None:
        """Take in what a ledger derived from the engine's events, in order."""
        held = self._held.get(engine)
        if held is None:
            held = self._held[engine] = tuple({} for _ in INDEXED_TIERS)
        shift = self._slots.take(engine) * BITS
        for change in changes:
            if isinstance(change, Put):
                if change.tier in INDEXED_TIERS:
                    self._put(held[change.tier], 1 << (shift + change.tier), change.blocks)
            elif isinstance(change, Drop):
                if change.tier in INDEXED_TIERS:
                    self._drop(held[change.tier], 1 << (shift + change.tier), change.blocks)
            else:
                self._windows.apply(engine, change)
                if isinstance(change, Wipe):
                    for tier in INDEXED_TIERS if change.tier is None else {change.tier}.intersection(INDEXED_TIERS):
                        self._drop(held[tier], 1 << (shift + tier), list(held[tier]))

    def forget(self, engine: EngineId) -> None:
        """The engine left: nothing of it remains, its slot is free for another."""
        if engine in self._held:
            self.apply(engine, [Wipe(None)])
            del self._held[engine]
            self._windows.forget(engine)
            self._slots.free(engine)

    def match(self, blocks: Sequence[BlockHash], most: int | None = None) -> dict[EngineId, PrefixMatch]:
        """How long a prefix of `blocks` each engine holds and its model can go on from; engines without are absent.

        most: how many blocks an engine would look up, if not all: where a hybrid model can go on depends on it.
        """
        runs = self._runs if len(blocks) <= _LINEAR_UP_TO else self._galloped_runs
        found = prefix_matches(runs(blocks), self._slots.mask(BITS), len(blocks))
        matches = {self._slots.owner(slot): match for slot, match in found.items()}
        self._windows.limit(matches, blocks, len(blocks) if most is None else most)
        return matches

    def _runs(self, blocks: Sequence[BlockHash]) -> Iterator[tuple[int, int]]:
        """(first index, mask) of each run of blocks with the same holders."""
        masks, last = self._masks, -1
        for depth, block in enumerate(blocks):
            mask = masks[block % _PARTS].get(block, 0)
            if mask != last:
                last = mask
                yield depth, mask

    def _galloped_runs(self, blocks: Sequence[BlockHash]) -> Iterator[tuple[int, int]]:
        """As `_runs`, looking at few blocks: a run is assumed whole between two places where the holders are equal.

        vLLM frees a request's tail first, so what an engine holds of a chain is nearly always a prefix. Each change is
        narrowed down to two neighbours.
        """
        masks, start, last = self._masks, 0, len(blocks) - 1

        def holders(at: int) -> int:
            return masks[blocks[at] % _PARTS].get(blocks[at], 0)

        while True:
            mask = holders(start)
            yield start, mask
            same, step = start, 1
            while True:
                if same == last:
                    return
                other = min(same + step, last)
                if holders(other) != mask:
                    break
                same, step = other, step * 2
            while other - same > 1:
                middle = (same + other) // 2
                if holders(middle) == mask:
                    same = middle
                else:
                    other = middle
            start = other

    def _put(self, held: dict[BlockHash, None], bit: int, blocks: Sequence[BlockHash]) -> None:
        masks = self._masks
        held.update(dict.fromkeys(blocks))
        before, mask = 0, bit
        for block in blocks:
            part = masks[block % _PARTS]
            known = part.get(block, 0)
            if known != before:
                before, mask = known, known | bit
            # One int for all blocks in a row with the same holders: it takes as much room as the entry.
            part[block] = mask

    def _drop(self, held: dict[BlockHash, None], bit: int, blocks: Sequence[BlockHash]) -> None:
        masks = self._masks
        for block in blocks:
            if held.pop(block, False) is None:
                part = masks[block % _PARTS]
                mask = part[block] ^ bit
                if mask:
                    part[block] = mask
                else:
                    del part[block]
