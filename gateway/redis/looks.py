"""Where to look along a chain to see how long a prefix of it each engine holds.

Engines evict what comes last first, so along a chain the holders change at few places. A long chain is looked at here
and there, and then only where the holders were found to differ: most of its hashes are never sent.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from routing.prefixes import prefix_matches
from routing.types import BlockHash, EngineId, PrefixMatch

LINEAR, STRIDE = 128, 64
"""blocks: of chains that are looked at block by block; from one to the next that is looked at in others"""
_WHOLE = 512
"""blocks of chains that are sent whole: 4 KB cost less than being asked twice"""


class Look(NamedTuple):
    """What Redis is to look at: every `stride`th of some blocks, the last, and what is between two that differ."""

    blocks: Sequence[BlockHash]
    """of a chain, in order"""
    stride: int


class Table(NamedTuple):
    """Which engine has which slot."""

    version: bytes
    engines: Mapping[int, EngineId]
    taken: int
    """the lowest bit of every slot that has one"""


class Seen(NamedTuple):
    """What a look found."""

    runs: Sequence[tuple[int, int]]
    """(index, mask of the holders) of the first block, and of those that others hold than the one before, in order"""
    table: Table


class Search:
    """One chain's holders, found by at most two looks. What changes between them counts as before or as after.

    look: what is to be looked at; None once `found` is known: how long a prefix each engine holds, if any.
    """

    def __init__(self, blocks: Sequence[BlockHash]) -> None:
        self.found: Mapping[EngineId, PrefixMatch] = {}
        self.look: Look | None = None
        self._blocks = blocks
        self._begins: list[int] | None = None
        """in the second look: each `STRIDE` blocks go on from here"""
        if len(blocks) > _WHOLE:
            self.look = Look([*blocks[:-1:STRIDE], blocks[-1]], 1)
        elif blocks:
            self.look = Look(blocks, 1 if len(blocks) <= LINEAR else STRIDE)

    def saw(self, seen: Seen) -> None:
        """Go on with what `look` found."""
        runs = seen.runs
        if self._begins is None and len(self._blocks) > _WHOLE and len(runs) > 1:
            self._look_closer([index for index, _ in runs[1:]])
            return
        if self._begins is not None:
            runs = [(self._place(index), holders) for index, holders in runs]
        self.look = None
        matches = prefix_matches(runs, seen.table.taken, len(self._blocks))
        self.found = {seen.table.engines[slot]: match for slot, match in matches.items()}

    def _look_closer(self, changes: Sequence[int]) -> None:
        """At what is before each block that was looked at and is held by others than the one looked at before it.

        The last of a stretch is held by whom the first of the next is, so every `STRIDE`th is the end of one again.
        """
        self._begins = [(index - 1) * STRIDE + 1 for index in changes]
        blocks = [self._blocks[0]]
        for begin in self._begins:
            blocks += self._blocks[begin : begin + STRIDE]
        self.look = Look(blocks, STRIDE)

    def _place(self, index: int) -> int:
        assert self._begins is not None
        stretch, offset = divmod(index - 1, STRIDE)
        return self._begins[stretch] + offset if index else 0
