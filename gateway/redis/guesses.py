"""Where along chains the holders were last found to change: where to look first, never an answer."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from routing.types import BlockHash

STRETCH = 64
"""blocks"""
MOST = 20_000


class Guesses:
    """Changes by stretch of a chain, known by its first block, whose hash stands for all blocks before it too.

    most: stretches that are remembered, each in about 250 bytes; the one first found goes first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._changes: OrderedDict[BlockHash, list[int]] = OrderedDict()

    def of(self, chain: Sequence[BlockHash]) -> Sequence[int]:
        """Indices of blocks that others held than the one before, in no order."""
        stretches = self._changes.keys() & chain[:-1:STRETCH]
        return [index for stretch in stretches for index in self._changes[stretch]]

    def correct(self, chain: Sequence[BlockHash], guessed: Iterable[int], changes: Iterable[int]) -> None:
        """Remember where the changes are, and no more where they were guessed to be."""
        for index in guessed:
            self._changes.pop(_stretch(chain, index), None)
        by_stretch: dict[BlockHash, list[int]] = {}
        for index in changes:
            by_stretch.setdefault(_stretch(chain, index), []).append(index)
        self._changes.update(by_stretch)
        while len(self._changes) > self._most:
            self._changes.popitem(last=False)


def _stretch(chain: Sequence[BlockHash], index: int) -> BlockHash:
    return chain[(index - 1) // STRETCH * STRETCH]
