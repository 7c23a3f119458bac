"""Which prefixes a workload has had before: what an endless cache for all would save."""

from collections.abc import Sequence

from routing.types import BlockHash


class Seen:
    """The blocks of recent prompts, whoever served them.

    limit: blocks remembered, >= 2; up to half of them, the ones longest unused, are forgotten at a time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._recent: set[BlockHash] = set()
        self._before: set[BlockHash] = set()

    def prefix(self, blocks: Sequence[BlockHash]) -> int:
        """How many leading blocks were in a prompt before."""
        recent, before = self._recent, self._before
        for depth, block in enumerate(blocks):
            if block not in recent and block not in before:
                return depth
        return len(blocks)

    def record(self, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks was asked."""
        self._recent.update(blocks)
        if len(self._recent) > self._limit // 2:
            self._before, self._recent = self._recent, set()
