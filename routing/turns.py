"""Which prompts go on from an earlier one: the next turn of a conversation, seen without any name for it."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import compress, islice

from routing.types import BlockHash


class Turns:
    """The ends of recent prompts, and which block followed each.

    A prompt that reaches past the end of an earlier one continues it. If another prompt did so before, with other
    words, that end is where many begin (a system prompt, a document) and not somebody's conversation.

    limit: ends remembered, > 0; the longest unused is forgotten first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._followed: OrderedDict[BlockHash, BlockHash | None] = OrderedDict()
        self._asked: tuple[Sequence[BlockHash], int | None] = ((), None)
        """the prompt looked at last and its `_last_end`, until one is recorded: mostly that one"""

    def continued(self, blocks: Sequence[BlockHash]) -> int:
        """How many leading blocks of this prompt are a whole earlier one that it alone continues; 0 for none."""
        end = self._last_end(blocks)
        self._asked = blocks, end
        if end is None:
            return 0
        return end + 1 if self._followed[blocks[end]] in (None, blocks[end + 1]) else 0

    def record(self, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks was sent."""
        if not blocks:
            return
        followed = self._followed
        asked, end = self._asked
        if asked is not blocks:
            end = self._last_end(blocks)
        self._asked = (), None
        if end is not None and followed[blocks[end]] is None:
            followed[blocks[end]] = blocks[end + 1]
        followed.setdefault(blocks[-1], None)
        followed.move_to_end(blocks[-1])
        if len(followed) > self._limit:
            followed.popitem(last=False)

    def _last_end(self, blocks: Sequence[BlockHash]) -> int | None:
        """Index of the last block, but for the very last, at which an earlier prompt ended."""
        if self._followed.keys().isdisjoint(islice(reversed(blocks), 1, None)):
            return None  # mostly so, and known in half the time that it takes to count along
        ends = map(self._followed.__contains__, islice(reversed(blocks), 1, None))
        return next(compress(range(len(blocks) - 2, -1, -1), ends), None)
