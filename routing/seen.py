"""Which prefixes a workload has had before: what an endless cache for all would save."""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence, Set

from routing.types import BlockHash


class Seen:
    """The blocks of recent prompts, whoever served them.

    They are kept in generations, each of which holds prompts whole: a table of all of them would stop the event loop
    for a tenth of a second when it grows, and again when it is forgotten. As a block's hash stands for all before it,
    how far a generation knows a prompt is found by bisection.

    limit: blocks remembered, >= `generations`. generations: as many as they are in; the oldest is forgotten at a time.
    """

    def __init__(self, limit: int, generations: int = 64) -> None:
        self._most = limit // generations
        self._generations: deque[set[BlockHash]] = deque([set()], maxlen=generations)
        """the newest first"""

    def prefix(self, blocks: Sequence[BlockHash]) -> int:
        """How many leading blocks were in a prompt before."""
        found = 0
        for generation in self._generations:
            if found < len(blocks) and blocks[found] in generation:
                found = _known(generation, blocks, found)
        return found

    def record(self, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks was asked."""
        newest = self._generations[0]
        newest.update(blocks[_known(newest, blocks, 0) :])
        if len(newest) >= self._most:
            self._generations.appendleft(set())


def _known(generation: Set[BlockHash], blocks: Sequence[BlockHash], least: int) -> int:
    """How many leading blocks a generation holds. least: of which that is known."""
    return bisect_left(blocks, True, lo=least, key=lambda block: block not in generation)
