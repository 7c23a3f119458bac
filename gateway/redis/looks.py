"""Where to look along a chain to see how long a prefix of it each engine holds.

Engines evict what comes last first, so along a chain the holders change at few places. A long chain is looked at here
and there, then closer between two blocks that were found to have different holders, until they are neighbours: most of
its blocks are never asked for.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
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
_Change = tuple[int, int, Bitmap, Bitmap]
"""the indices of two blocks and their holders, which differ; of what is between them, if anything, nothing is known"""


class Table(NamedTuple):
    """Which engine has which slot."""

    version: bytes
    engines: Mapping[int, EngineId]
    taken: int
    """the lowest bit of every slot that has one"""


def table_of(version: bytes, engines: Mapping[int, EngineId]) -> Table:
    """The table with these slots."""
    return Table(version, engines, sum(1 << slot * BITS for slot in engines))


_Seen = tuple[Iterator[Bitmap], Table]
"""the holders of the blocks that were asked for, and the table of then"""


class Search:
    """One chain's holders, found by a look for each stride. What changes between two counts as before or as after.

    blocks: what is to be looked at; none once `found` is known.
    """

    def __init__(self, chain: Sequence[BlockHash], guesses: Guesses) -> None:
        self.found: Found = {}
        self._looks = _looks(chain, guesses)
        self.blocks = next(self._looks) if chain else []

    def saw(self, bitmaps: Iterator[Bitmap], table: Table) -> None:
        """Go on with who holds each of `blocks`, at a time when the table was this one."""
        try:
            self.blocks = self._looks.send((bitmaps, table))
        except StopIteration as end:
            self.blocks, self.found = [], end.value


def _looks(chain: Sequence[BlockHash], guesses: Guesses) -> Generator[list[BlockHash], _Seen, Found]:
    """Yields what to look at, is sent what is seen there, returns who holds how long a prefix."""
    last, long = len(chain) - 1, len(chain) > LINEAR
    step = STRETCH if long else 1
    places: Sequence[int] = range(step, last, step)
    between = chain[step:last:step]
    guessed = sorted(guesses.of(chain)) if long else []
    if guessed:
        # One that comes twice, or is an end of the chain, is asked for twice.
        places = sorted([*places, *guessed, *[index - 1 for index in guessed]])
        between = [chain[place] for place in places]
    bitmaps, table = yield [chain[0], chain[last], *between]
    first = next(bitmaps)
    changes = _closer([(0, last, first, next(bitmaps))], [places], bitmaps)
    for stride in STRIDES:
        blocks: list[BlockHash] = []
        for low, high, _, _ in changes:
            blocks += chain[low + stride : high : stride]
        if blocks:
            bitmaps, now = yield blocks
            if now is not table:
                table = _common(table, now)
            looked_at = [range(low + stride, high, stride) for low, high, _, _ in changes]
            changes = _closer(changes, looked_at, bitmaps)
    found = [high for _, high, _, _ in changes]
    if long and found != guessed:
        guesses.correct(chain, guessed, found)
    runs = [(0, _mask(first)), *[(high, _mask(after)) for _, high, _, after in changes]]
    engines = table.engines
    return {engines[slot]: match for slot, match in prefix_matches(runs, table.taken, len(chain)).items()}


def _closer(
    changes: Sequence[_Change], looked_at: Sequence[Sequence[int]], bitmaps: Iterator[Bitmap]
) -> Sequence[_Change]:
    """These changes and those found inside them, each by the closest two blocks that show it.

    looked_at: the indices between each change's two. bitmaps: the holders there, one after the other.
    """
    closer: list[_Change] = []
    for (low, high, before, after), places in zip(changes, looked_at, strict=True):
        for place in places:
            # `zip` would take as long to set up as four of these.
            bitmap = next(bitmaps)
            if bitmap != before:
                closer.append((low, place, before, bitmap))
                before = bitmap
            low = place
        if before != after:
            closer.append((low, high, before, after))
    return closer


def _mask(bitmap: Bitmap) -> int:
    return int.from_bytes(bitmap, "little") if bitmap else 0


def _common(one: Table, other: Table) -> Table:
    """An engine that was given a slot of another's meanwhile has not what the other was seen to hold."""
    return table_of(other.version, dict(one.engines.items() & other.engines.items()))
