"""Where to look along a chain to see how long a prefix of it each engine holds.

Engines evict what comes last first, so along a chain the holders change at few places. A long chain is looked at here
and there, then closer between two blocks that were found to have different holders, until they are neighbours: most of
its blocks are never asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gateway.redis.guesses import STRETCH, Guesses
from routing.prefixes import BITS, prefix_matches
from routing.types import BlockHash, EngineId, PrefixMatch

LINEAR = 128
"""blocks of chains that are looked at block by block"""
STRIDES = (8, 1)
"""blocks from one to the next in the looks at other chains that come after the first, in which they are `STRETCH`"""

Found = Mapping[EngineId, PrefixMatch]
"""how long a prefix each engine holds; those that hold nothing are absent"""
Bitmap = bytes | None
"""the holders of a block as they are stored, None for nobody"""
_Apart = tuple[int, int, Bitmap, Bitmap, Sequence[int]]
"""the indices of two blocks that are not neighbours, their holders, which differ, and where to look between them"""


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

    blocks: what is to be looked at; none once `found` is known.
    """

    def __init__(self, chain: Sequence[BlockHash], guesses: Guesses) -> None:
        self.found: Found = {}
        self._chain = chain
        self._guesses = guesses
        self._guessed: list[int] = []
        self._strides = iter(STRIDES)
        self._table: Table | None = None
        self._runs: list[tuple[int, Bitmap]] = []
        """(index, holders) of the first block, and of those that others hold than the one before"""
        self._apart: list[_Apart] = []
        self._first_look: Sequence[int] = range(1, len(chain) - 1)
        if len(chain) > LINEAR:
            self._first_look = self._here_and_there()
        self.blocks = [chain[0], chain[-1], *map(chain.__getitem__, self._first_look)] if chain else []

    def saw(self, bitmaps: Iterator[Bitmap], table: Table) -> None:
        """Go on with who holds each of `blocks`, at a time when the table was this one."""
        apart, self._apart = self._apart, []
        self.blocks = []
        stride = next(self._strides, 1)
        if self._table is None:
            self._table, first = table, next(bitmaps)
            self._runs.append((0, first))
            apart = [(0, len(self._chain) - 1, first, next(bitmaps), self._first_look)]
        elif self._table is not table:
            self._table = _common(self._table, table)
        for low, high, before, after, between in apart:
            for place, bitmap in zip(between, bitmaps, strict=False):
                if bitmap != before:
                    self._differ(low, place, before, bitmap, stride)
                    before = bitmap
                low = place
            if before != after:
                self._differ(low, high, before, after, stride)
        if not self._apart:
            self._end(self._table)

    def _here_and_there(self) -> Sequence[int]:
        places = range(STRETCH, len(self._chain) - 1, STRETCH)
        self._guessed = sorted(self._guesses.of(self._chain))
        if not self._guessed:
            return places
        # One that comes twice, or is an end of the chain, is asked for twice.
        return sorted([*places, *self._guessed, *[index - 1 for index in self._guessed]])

    def _differ(self, low: int, high: int, before: Bitmap, after: Bitmap, stride: int) -> None:
        if high - low == 1:
            self._runs.append((high, after))
        else:
            self._apart.append((low, high, before, after, range(low + stride, high, stride)))
            self.blocks += self._chain[low + stride : high : stride]

    def _end(self, table: Table) -> None:
        runs = sorted(self._runs)
        changes = [index for index, _ in runs[1:]]
        if changes != self._guessed and len(self._chain) > LINEAR:
            self._guesses.correct(self._chain, self._guessed, changes)
        masks = [(index, int.from_bytes(bitmap or b"", "little")) for index, bitmap in runs]
        matches = prefix_matches(masks, table.taken, len(self._chain))
        self.found = {table.engines[slot]: match for slot, match in matches.items()}


def _common(one: Table, other: Table) -> Table:
    """An engine that was given a slot of another's meanwhile has not what the other was seen to hold."""
    return table_of(other.version, dict(one.engines.items() & other.engines.items()))
