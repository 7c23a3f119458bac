"""What a ledger has changed since it was last asked, for books that are kept elsewhere too."""

from collections.abc import Iterable, Mapping

from routing.books import Books, Entries, Traits
from routing.holdings import Holdings
from routing.types import BlockHash, EngineHash


class Journal:
    """Collects names that were touched; what became of them is looked up when it is asked for."""

    def __init__(self) -> None:
        self._touched: set[EngineHash] = set()
        self._uncommon: set[BlockHash] = set()
        self._last: dict[EngineHash, BlockHash] = {}

    def touch(self, hashes: Iterable[EngineHash]) -> None:
        """Names or copies of these may change, or have changed."""
        self._touched.update(hashes)

    def gone(self, hash_: EngineHash, block: BlockHash) -> None:
        """The name is forgotten; it stood for this block."""
        self._touched.add(hash_)
        if block in self._uncommon:
            self._last[hash_] = block

    def restore(self, books: Books) -> None:
        """The books stand like this; to be called first."""
        self._uncommon.update(books.copies)

    def clear(self) -> None:
        """Everything is forgotten."""
        self._touched.clear()
        self._uncommon.clear()
        self._last.clear()

    def take(self, names: Mapping[EngineHash, BlockHash], holdings: Holdings, traits: Traits) -> Entries:
        """What became of all that was touched since the last call."""
        named = {hash_: names.get(hash_) for hash_ in self._touched}
        blocks = [block for block in (*named.values(), *self._last.values()) if block is not None]
        copies = dict(holdings.uncommon(blocks))
        if self._uncommon:
            copies.update((block, ()) for block in blocks if block in self._uncommon and block not in copies)
        for block, places in copies.items():
            if places:
                self._uncommon.add(block)
            else:
                self._uncommon.discard(block)
        self._touched.clear()
        self._last.clear()
        return Entries(named, copies, traits)
