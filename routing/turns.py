"""Which prompts go on from an earlier one: the next turn of a conversation, seen without any name for it."""

from collections import OrderedDict
from collections.abc import Sequence

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

    def continued(self, blocks: Sequence[BlockHash]) -> int:
        """How many leading blocks of this prompt are a whole earlier one that it alone continues; 0 for none."""
        followed = self._followed
        for end in range(len(blocks) - 2, -1, -1):
            if blocks[end] in followed:
                return end + 1 if followed[blocks[end]] in (None, blocks[end + 1]) else 0
        return 0

    def record(self, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks was sent."""
        if not blocks:
            return
        followed = self._followed
        for end in range(len(blocks) - 2, -1, -1):
            if blocks[end] in followed:
                if followed[blocks[end]] is None:
                    followed[blocks[end]] = blocks[end + 1]
                break
        followed.setdefault(blocks[-1], None)
        followed.move_to_end(blocks[-1])
        if len(followed) > self._limit:
            followed.popitem(last=False)
