"""How many copies of each block an engine holds, by tier and KV-cache group."""

from collections.abc import Iterable, Mapping, Sequence

from routing.books import Books, Copies
from routing.types import BlockHash, EngineHash, Tier


class Holdings:
    """Reference counts, because engines keep twins: two blocks of equal content, announced and removed one by one.

    A block counts as held in a tier while every judged group holds a copy there: attention needs all of them.
    """

    def __init__(self) -> None:
        self._copies: dict[tuple[Tier, int], dict[BlockHash, int]] = {}
        self._judged: list[int] = []
        self._apart: set[int] = set()

    @property
    def judged(self) -> Sequence[int]:
        """The groups that all have to hold a block."""
        return self._judged

    def uncommon(self, blocks: Sequence[BlockHash]) -> Mapping[BlockHash, tuple[Copies, ...]]:
        """Every place's copies of those that are not held at most once in each tier, in the only group judged."""
        only = self._judged[0] if len(self._judged) == 1 else None
        suspects: set[BlockHash] = set()
        for (_, group), held in self._copies.items():
            count = held.get
            suspects.update([block for block in blocks if count(block, 0) > (group == only)])
        return {
            block: tuple(
                Copies(tier, group, number)
                for (tier, group), held in self._copies.items()
                if (number := held.get(block)) is not None
            )
            for block in suspects
        }

    def blocks(self, tier: Tier) -> Sequence[BlockHash]:
        """All that count as held in this tier."""
        if not self._judged:
            return ()
        first, *others = [self._copies.get((tier, group), {}) for group in self._judged]
        return [block for block in first if all(block in copies for copies in others)]

    def restore(self, books: Books) -> None:
        """Count what the books say, as it was counted there; chunks' copies are not among it."""
        traits = books.traits
        self._judged = list(traits.judged)
        for tier in (Tier.GPU,) if traits.chunks else (Tier.GPU, Tier.CPU):
            held = books.held.get(tier, frozenset())
            common = [block for block in books.names.values() if block in held and block not in books.copies]
            for group in self._judged:
                self._copies[tier, group] = dict.fromkeys(common, 1)
            for block, copies in books.copies.items():
                for place in copies:
                    if place.tier is tier:
                        self._copies.setdefault((tier, place.group), {})[block] = place.number

    def judge(self, group: int) -> Sequence[Tier]:
        """From now on a block must be in `group` too. Returns the tiers in which therefore nothing is held any more."""
        if group in self._judged:
            return ()
        emptied = [tier for tier, other in self._copies if other in self._judged and self._copies[tier, other]]
        self._judged.append(group)
        return sorted(set(emptied))

    def keep_apart(self, group: int) -> None:
        """From now on `group` speaks for itself: others hold a block whether or not it does."""
        self._apart.add(group)

    def judges(self, group: int) -> bool:
        return group in self._judged

    def without(self, hashes: Sequence[EngineHash], blocks: Sequence[BlockHash | None]) -> Sequence[EngineHash]:
        """Those of `hashes` whose block no group holds in any tier, or that have no name. blocks: one for each."""
        places = self._copies.values()
        for copies in places:
            if not copies.keys().isdisjoint(blocks):
                break
        else:
            return hashes
        return [
            hash_ for hash_, block in zip(hashes, blocks, strict=True) if not any(block in copies for copies in places)
        ]

    def has(self, tier: Tier, group: int, block: BlockHash) -> bool:
        """Whether this group holds a copy in this tier."""
        return block in self._copies.get((tier, group), ())

    def held(self, tier: Tier, block: BlockHash) -> bool:
        """Whether the block counts as held in this tier."""
        return bool(self._judged) and all(self.has(tier, group, block) for group in self._judged)

    def add(self, tier: Tier, group: int, blocks: Iterable[BlockHash]) -> list[BlockHash]:
        """One more copy of each. Returns those that the tier did not hold and now does."""
        copies = self._copies.setdefault((tier, group), {})
        count = copies.get
        first: list[BlockHash] = []
        for block in blocks:
            present = count(block)
            if present is None:
                copies[block] = 1
                first.append(block)
            else:
                copies[block] = present + 1
        return self._in_other_groups(tier, group, first)

    def remove(self, tier: Tier, group: int, blocks: Iterable[BlockHash]) -> list[BlockHash]:
        """One copy less of each, if there is one. Returns those that the tier held and no longer does."""
        copies = self._copies.get((tier, group))
        if copies is None:
            return []
        take = copies.pop
        last: list[BlockHash] = []
        for block in blocks:
            present = take(block, 0)
            if present == 1:
                last.append(block)
            elif present:
                copies[block] = present - 1
        return self._in_other_groups(tier, group, last)

    def wipe(self, tier: Tier) -> None:
        for place, copies in self._copies.items():
            if place[0] is tier:
                copies.clear()

    def clear(self) -> None:
        self._copies.clear()
        self._judged.clear()

    def _in_other_groups(self, tier: Tier, group: int, blocks: list[BlockHash]) -> list[BlockHash]:
        if self._judged == [group] or group in self._apart:
            return blocks
        if group not in self._judged:
            return []
        others = [self._copies.get((tier, other), {}) for other in self._judged if other != group]
        return [block for block in blocks if all(block in copies for copies in others)]
