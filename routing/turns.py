"""Which prompts go on from an earlier one: the next turn of a conversation, seen without any name for it."""

from collections import Counter, OrderedDict
from collections.abc import Sequence

from routing.types import BlockHash

_STRETCH = 32
"""blocks that are looked through one by one, where a prompt is known to have ended among them"""


class _End:
    """Where a prompt ended.

    followed: the block that followed when another first went on. stretch: the first block of the stretch it is in.
    """

    __slots__ = ("followed", "stretch")

    def __init__(self, stretch: BlockHash) -> None:
        self.followed: BlockHash | None = None
        self.stretch = stretch


class Turns:
    """The ends of recent prompts, and which block followed each.

    A prompt that reaches past the end of an earlier one continues it. If another prompt did so before, with other
    words, that end is where many begin (a system prompt, a document) and not somebody's conversation.

    limit: ends remembered, >= `parts`. parts: tables that they are kept in, by their hash: a single one would stop the
    event loop for 20 ms when it grows. Of each the longest unused is forgotten first.
    """

    def __init__(self, limit: int, parts: int = 64) -> None:
        self._most = limit // parts
        self._ends: list[OrderedDict[BlockHash, _End]] = [OrderedDict() for _ in range(parts)]
        self._stretches = Counter[BlockHash]()
        """of ends in each stretch, so that not every block of a prompt is looked up; by its first block"""

    def continued(self, blocks: Sequence[BlockHash]) -> int:
        """How many leading blocks of this prompt are a whole earlier one that it alone continues; 0 for none."""
        found = self._last_end(blocks)
        if found is None:
            return 0
        at, end = found
        return at + 1 if end.followed in (None, blocks[at + 1]) else 0

    def record(self, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks was sent."""
        if not blocks:
            return
        found = self._last_end(blocks)
        if found is not None:
            at, end = found
            if end.followed is None:
                end.followed = blocks[at + 1]
        last = blocks[-1]
        ends = self._part(last)
        if last in ends:
            ends.move_to_end(last)
            return
        stretch = blocks[(len(blocks) - 1) // _STRETCH * _STRETCH]
        ends[last] = _End(stretch)
        self._stretches[stretch] += 1
        if len(ends) > self._most:
            self._forget_one(ends)

    def _part(self, block: BlockHash) -> OrderedDict[BlockHash, _End]:
        return self._ends[block % len(self._ends)]

    def _last_end(self, blocks: Sequence[BlockHash]) -> tuple[int, _End] | None:
        """The last block, but for the very last, at which an earlier prompt ended: its index, and what is known."""
        last = len(blocks) - 2
        for first in range(last // _STRETCH * _STRETCH, -1, -_STRETCH):
            if blocks[first] in self._stretches:
                for at in range(min(first + _STRETCH - 1, last), first - 1, -1):
                    end = self._part(blocks[at]).get(blocks[at])
                    if end is not None:
                        return at, end
        return None

    def _forget_one(self, ends: OrderedDict[BlockHash, _End]) -> None:
        _, end = ends.popitem(last=False)
        self._stretches[end.stretch] -= 1
        if not self._stretches[end.stretch]:
            del self._stretches[end.stretch]
