"""Where to look along a chain to see how long a prefix of it each engine holds.

Engines evict what comes last first, so along a chain the holders change at few places. A long chain is looked at here
and there, then closer between two blocks that were found to have different holders, until they are neighbours: most of
its blocks are never asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from routing.prefixes import BITS, prefix_matches
from routing.types import BlockHash, EngineId, PrefixMatch

LINEAR = 128
"""blocks of chains that are looked at block by block"""
STRIDES = (64, 8, 1)
"""blocks from one to the next in each look at other chains"""

Bitmap = bytes | None
"""the holders of a block as they are stored, None for nobody"""
_Apart = tuple[int, int, Bitmap, Bitmap]
"""the indices of two blocks that are not neighbours, and their holders, which differ"""


class Table(NamedTuple):
    """Which engine has which slot."""

    version: bytes
    engines: Mapping[int, EngineId]
    taken: int
    """the lowest bit of every slot that has one"""


def table_of(version: bytes, engines: Mapping[int, EngineId]) -> Table:
    """The table with these slots."""
    return Table(version, engines, sum(1 << slot * BITS for slot in engines))


class Search:
    """One chain's holders, found by a look for each stride. What changes between two counts as before or as after.

    blocks: what is to be looked at; none once `found` is known: how long a prefix each engine holds, if any.
    """

    def __init__(self, chain: Sequence[BlockHash]) -> None:
        self.found: Mapping[EngineId, PrefixMatch] = {}
        self._chain = chain
        self._strides = iter((1,) if len(chain) <= LINEAR else STRIDES)
        self._stride = next(self._strides)
        self.blocks = [chain[0], chain[-1], *chain[self._stride : -1 : self._stride]] if chain else []
        self._table: Table | None = None
        self._runs: list[tuple[int, Bitmap]] = []
        """(index, holders) of the first block, and of those that others hold than the one before"""
        self._apart: list[_Apart] = []

    def saw(self, bitmaps: Iterator[Bitmap], table: Table) -> None:
        """Go on with who holds each of `blocks`, at a time when the table was this one."""
        apart, self._apart = self._apart, []
        if self._table is None:
            self._table, first = table, next(bitmaps)
            self._runs.append((0, first))
            apart = [(0, len(self._chain) - 1, first, next(bitmaps))]
        elif self._table is not table:
            self._table = _common(self._table, table)
        for low, high, before, after in apart:
            for place, bitmap in zip(range(low + self._stride, high, self._stride), bitmaps, strict=False):
                if bitmap != before:
                    self._differ(low, place, before, bitmap)
                    before = bitmap
                low = place
            if before != after:
                self._differ(low, high, before, after)
        if self._apart:
            self._look_closer()
        else:
            self._end(self._table)

    def _differ(self, low: int, high: int, before: Bitmap, after: Bitmap) -> None:
        if high - low == 1:
            self._runs.append((high, after))
        else:
            self._apart.append((low, high, before, after))

    def _look_closer(self) -> None:
        stride = self._stride = next(self._strides)
        self.blocks = []
        for low, high, _, _ in self._apart:
            self.blocks += self._chain[low + stride : high : stride]

    def _end(self, table: Table) -> None:
        self.blocks = []
        runs = [(index, int.from_bytes(bitmap or b"", "little")) for index, bitmap in sorted(self._runs)]
        matches = prefix_matches(runs, table.taken, len(self._chain))
        self.found = {table.engines[slot]: match for slot, match in matches.items()}


def _common(one: Table, other: Table) -> Table:
    """An engine that was given a slot of another's meanwhile has not what the other was seen to hold."""
    return table_of(other.version, dict(one.engines.items() & other.engines.items()))
