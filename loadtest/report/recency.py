"""Blocks in the order of their last use, with the count of those used since another."""

_LEAST_SLOTS = 1024


class Recency:
    """Answers in logarithmic time how many blocks were used after a given one (a Fenwick tree over slots of time)."""

    def __init__(self) -> None:
        self._slot: dict[int, int] = {}
        self._tree: list[int] = [0] * (_LEAST_SLOTS + 1)
        self._next = 1

    def __len__(self) -> int:
        return len(self._slot)

    def __contains__(self, block: int) -> bool:
        return block in self._slot

    def newer(self, block: int) -> int:
        """How many blocks were used after this one, which must be known."""
        return len(self._slot) - self._up_to(self._slot[block])

    def use(self, block: int) -> None:
        """Now the block is the newest."""
        before = self._slot.pop(block, None)
        if before is not None:
            self._add(before, -1)
        if self._next == len(self._tree):
            self._renumber()
        self._slot[block] = self._next
        self._add(self._next, 1)
        self._next += 1

    def drop(self, block: int) -> None:
        """Forget a block, which must be known."""
        self._add(self._slot.pop(block), -1)

    def _up_to(self, slot: int) -> int:
        total, tree = 0, self._tree
        while slot:
            total += tree[slot]
            slot &= slot - 1
        return total

    def _add(self, slot: int, change: int) -> None:
        tree, size = self._tree, len(self._tree)
        while slot < size:
            tree[slot] += change
            slot += slot & -slot

    def _renumber(self) -> None:
        """Slots from 1 on in the same order, and as many again free."""
        ordered = sorted(self._slot, key=self._slot.__getitem__)
        self._slot = {block: slot for slot, block in enumerate(ordered, 1)}
        size = max(_LEAST_SLOTS, 2 * len(ordered)) + 1
        self._tree = [0] * size
        for slot in range(1, size):
            self._tree[slot] += slot <= len(ordered)
            above = slot + (slot & -slot)
            if above < size:
                self._tree[above] += self._tree[slot]
        self._next = len(ordered) + 1
