"""An engine's names for blocks -> ours."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import cast

from routing.books import Books, Entries, Traits
from routing.holdings import Holdings
from routing.journal import Journal
from routing.types import BlockHash, EngineHash


class Names(dict[EngineHash, BlockHash]):
    """Names of the blocks that are held, and of some that were.

    remembered: names kept of blocks that are gone, once the engine has offloaded a block.
    journal: told of what changes, if the books are kept elsewhere too.
    """

    def __init__(self, remembered: int, journal: Journal | None) -> None:
        super().__init__()
        self._remembered = remembered
        self._journal = journal
        self._gone: deque[EngineHash] = deque()
        self.offloads = False
        """another copy of a block that is gone may be announced by its name alone"""

    def give(self, hashes: Sequence[EngineHash], blocks: Sequence[BlockHash]) -> None:
        """These are the names of these blocks, one for one."""
        for hash_, block in zip(hashes, blocks, strict=True):
            self[hash_] = block
        self.touch(hashes)

    def look_up(self, hashes: Iterable[EngineHash]) -> list[BlockHash | None]:
        """Our names, None for those that have none."""
        return list(map(self.get, hashes))

    def touch(self, hashes: Iterable[EngineHash]) -> None:
        """Copies of these change."""
        if self._journal is not None:
            self._journal.touch(hashes)

    def retire(self, hashes: Sequence[EngineHash], blocks: Sequence[BlockHash | None], holdings: Holdings) -> None:
        """Forget names of blocks that are gone: at once, or the oldest ones of those remembered.

        blocks: what the names stand for, one for one.
        """
        if self.offloads:
            gone = self._gone
            gone.extend(hashes)
            hashes = [gone.popleft() for _ in range(len(gone) - self._remembered)]
            blocks = self.look_up(hashes)
        for hash_ in holdings.without(hashes, blocks):
            block = self.pop(hash_, None)
            if block is not None and self._journal is not None:
                self._journal.gone(hash_, block)

    def entries(self, holdings: Holdings, traits: Traits) -> Entries:
        """What has changed since the last call. There must be a journal."""
        assert self._journal is not None
        return self._journal.take(self, holdings, traits)

    def restore(self, books: Books, holdings: Holdings) -> None:
        """Go on from books kept elsewhere, which `holdings` was restored from."""
        self.update(books.names)
        self.offloads = books.traits.offloads
        self._gone.extend(holdings.without(list(self), list(self.values())))
        if self._journal is not None:
            self._journal.restore(books)

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self._gone.clear()
        if self._journal is not None:
            self._journal.clear()


def named(
    hashes: Sequence[EngineHash], found: list[BlockHash | None]
) -> tuple[Sequence[BlockHash], Sequence[EngineHash]]:
    """The names found, and the hashes that have none."""
    if None not in found:
        return cast(list[BlockHash], found), ()
    nameless = [hash_ for hash_, block in zip(hashes, found, strict=True) if block is None]
    return [block for block in found if block is not None], nameless
