"""Which prompts go on from an earlier one: the next turn of a conversation, seen without any name for it."""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from routing.types import BlockHash

_STRETCH = 32
"""blocks that are looked through one by one, where a prompt is known to have ended among them"""


class _End(NamedTuple):
    """Where a prompt ended."""

    followed: BlockHash | None
    """the block that followed when another first went on"""
    stretch: BlockHash
    """the first block of the stretch that it is in"""


class Turns:
    """The ends of recent prompts, and which block followed each.

    A prompt that reaches past the end of an earlier one continues it. If another prompt did so before, with other
    words, that end is where many begin (a system prompt, a document) and not somebody's conversation.

    limit: ends remembered, > 0; the longest unused is forgotten first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ends: OrderedDict[BlockHash, _End] = OrderedDict()
        self._stretches = Counter[BlockHash]()
        """of ends in each stretch, so that not every block of a prompt is looked up; by its first block"""

    def continued(self, blocks: Sequence[BlockHash]) -> int:
        """How many leading blocks of this prompt are a whole earlier one that it alone continues; 0 for none."""
        end = self._last_end(blocks)
        if end is None:
            return 0
        return end + 1 if self._ends[blocks[end]].followed in (None, blocks[end + 1]) else 0

    def record(self, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks was sent."""
        if not blocks:
            return
        ends = self._ends
        end = self._last_end(blocks)
        if end is not None and ends[blocks[end]].followed is None:
            ends[blocks[end]] = ends[blocks[end]]._replace(followed=blocks[end + 1])
        if blocks[-1] in ends:
            ends.move_to_end(blocks[-1])
            return
        stretch = blocks[(len(blocks) - 1) // _STRETCH * _STRETCH]
        ends[blocks[-1]] = _End(None, stretch)
        self._stretches[stretch] += 1
        if len(ends) > self._limit:
            self._forget_one()

    def _last_end(self, blocks: Sequence[BlockHash]) -> int | None:
        """Index of the last block, but for the very last, at which an earlier prompt ended."""
        last = len(blocks) - 2
        for first in range(last // _STRETCH * _STRETCH, -1, -_STRETCH):
            if blocks[first] in self._stretches:
                for at in range(min(first + _STRETCH - 1, last), first - 1, -1):
                    if blocks[at] in self._ends:
                        return at
        return None

    def _forget_one(self) -> None:
        _, end = self._ends.popitem(last=False)
        self._stretches[end.stretch] -= 1
        if not self._stretches[end.stretch]:
            del self._stretches[end.stretch]
