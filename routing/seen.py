"""Which prefixes a workload has had before: what an endless cache for all would save."""

from bisect import bisect_left
from collections.abc import Sequence

from routing.types import BlockHash


class Seen:
    """The blocks of recent prompts, whoever served them.

    A block is known only together with all before it, since its hash stands for them too and prompts are
    recorded whole. So how far a prompt is known is found by bisection.

    limit: blocks remembered, >= 2; up to half of them, the ones longest unused, are forgotten at a time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._recent: set[BlockHash] = set()
        self._before: set[BlockHash] = set()

    def prefix(self, blocks: Sequence[BlockHash]) -> int:
        """How many leading blocks were in a prompt before."""
        recent, before = self._recent, self._before
        return bisect_left(blocks, True, key=lambda block: block not in recent and block not in before)

    def record(self, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks was asked."""
        recent = self._recent
        recent.update(blocks[bisect_left(blocks, True, key=lambda block: block not in recent) :])
        if len(recent) > self._limit // 2:
            self._before, self._recent = recent, set()
