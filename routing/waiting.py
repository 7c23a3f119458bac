"""Blocks that an engine holds and that have no name yet, because what they follow is unknown."""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from routing.events import BlockStored
from routing.types import EngineHash, Tier

Place = tuple[Tier, int]
"""tier and KV-cache group"""


class Waiting:
    """Copies counted under the engine's hashes until a name turns up.

    Two ways lead here: an event without tokens speaks of a block that no event with tokens has named, and a range
    follows a block from before we listened.

    limit: blocks kept at most; above it all are forgotten. Forgetting is safe, it only means not to know.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._copies: dict[EngineHash, Counter[Place]] = {}
        self._ranges: dict[EngineHash, dict[EngineHash, BlockStored]] = {}
        self._ranged = 0

    def __len__(self) -> int:
        """Blocks held without a name."""
        return len(self._copies)

    def __bool__(self) -> bool:
        return bool(self._copies or self._ranges)

    def add(self, place: Place, hashes: Sequence[EngineHash]) -> None:
        """One more copy of each in `place`."""
        if len(self._copies) + len(hashes) > self._limit:
            self.clear()
        for hash_ in hashes:
            self._copies.setdefault(hash_, Counter())[place] += 1

    def has(self, place: Place, hash_: EngineHash) -> bool:
        """Whether there is a copy in `place`."""
        copies = self._copies.get(hash_)
        return copies is not None and copies[place] > 0

    def park(self, event: BlockStored) -> None:
        """Keep the content of a range whose parent has no name; its copies are added apart."""
        if event.parent is None:
            raise ValueError("a range at position 0 follows nothing")
        siblings = self._ranges.setdefault(event.parent, {})
        known = siblings.get(event.hashes[0])
        if known is not None and len(known.hashes) >= len(event.hashes):
            return
        self._ranged += len(event.hashes) - (len(known.hashes) if known else 0)
        siblings[event.hashes[0]] = replace(event, tokens=array("I", event.tokens))
        if self._ranged > self._limit:
            self.clear()

    def remove(self, place: Place, hash_: EngineHash) -> None:
        """One copy less in `place`, if there is one."""
        copies = self._copies.get(hash_)
        if copies is None or not copies[place]:
            return
        copies[place] -= 1
        if not copies.total():
            del self._copies[hash_]

    def take_copies(self, hash_: EngineHash) -> Mapping[Place, int]:
        """Hand over the copies of a block that now has a name."""
        return self._copies.pop(hash_, {})

    def take_followers(self, hash_: EngineHash) -> Sequence[BlockStored]:
        """Hand over the ranges that follow a block that now has a name."""
        followers = self._ranges.pop(hash_, {}).values()
        self._ranged -= sum(len(event.hashes) for event in followers)
        return list(followers)

    def wipe(self, tier: Tier) -> None:
        for hash_, copies in list(self._copies.items()):
            for place in [place for place in copies if place[0] is tier]:
                del copies[place]
            if not copies.total():
                del self._copies[hash_]

    def clear(self) -> None:
        self._copies.clear()
        self._ranges.clear()
        self._ranged = 0
