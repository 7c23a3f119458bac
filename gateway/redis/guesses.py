"""Where along chains the holders were last found to change: where to look first, never an answer."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence

from routing.types import BlockHash

STRETCH = 64
"""blocks"""
MOST = 20_000


class Guesses:
    """Changes by stretch of a chain, known by its first block, whose hash stands for all blocks before it too.

    most: stretches that are remembered, the last ones found, each in about 250 bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._changes: OrderedDict[BlockHash, list[int]] = OrderedDict()

    def stretches(self, chain: Sequence[BlockHash]) -> Collection[BlockHash]:
        """The first blocks of the chain's stretches in which there were changes."""
        return self._changes.keys() & chain[:-1:STRETCH]

    def changes(self, stretches: Iterable[BlockHash]) -> Sequence[int]:
        """Indices of blocks that others held than the one before."""
        return [index for stretch in stretches for index in self._changes.get(stretch, ())]

    def found(self, chain: Sequence[BlockHash], guessed: Iterable[BlockHash], changes: Sequence[int]) -> None:
        """Remember where the changes are, and no more those that were guessed in these stretches."""
        for stretch in guessed:
            self._changes.pop(stretch, None)
        by_stretch: dict[BlockHash, list[int]] = {}
        for index in changes:
            by_stretch.setdefault(chain[(index - 1) // STRETCH * STRETCH], []).append(index)
        self._changes.update(by_stretch)
        while len(self._changes) > self._most:
            self._changes.popitem(last=False)
