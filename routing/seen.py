"""Which prefixes a workload has had before: what an endless cache for all would save."""

from bisect import bisect_left
from collections.abc import Sequence, Set

from routing.types import BlockHash


class Seen:
    """The blocks of recent prompts, whoever served them.

    They are kept in generations: a table of all of them would stop the event loop for a tenth of a second when it
    grows, and again when it is forgotten. As a block's hash stands for all before it, how far a generation goes on with
    a prompt is found by bisection. None has a block of which those before are only in newer ones, so what is known of a
    prompt is found going from the oldest to the newest.

    limit: blocks remembered, >= `generations`. generations: as many as they are in, an even number; the oldest is
    forgotten at a time. What is asked again is written down again only when the newer half of them does not have it. So
    it is known until at least about half the limit was asked since.
    """

    def __init__(self, limit: int, generations: int = 64) -> None:
        self._most = limit // generations
        self._count = generations
        self._generations: list[set[BlockHash]] = [set()]
        """the newest last"""

    def prefix(self, blocks: Sequence[BlockHash]) -> int:
        """How many leading blocks were in a prompt before."""
        return _known(self._generations, blocks)

    def record(self, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks was asked."""
        newest = self._generations[-1]
        newest.update(blocks[_known(self._generations[-self._count // 2 :], blocks) :])
        if len(newest) >= self._most:
            self._generations.append(set())
            del self._generations[: -self._count]


def _known(generations: Sequence[Set[BlockHash]], blocks: Sequence[BlockHash]) -> int:
    """How many leading blocks these generations hold."""
    found, whole = 0, len(blocks)
    for generation in generations:
        if found < whole and blocks[found] in generation:
            found = bisect_left(blocks, True, lo=found + 1, key=lambda block: block not in generation)
    return found
