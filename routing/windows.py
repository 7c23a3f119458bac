"""Hybrid models: how much of a prefix the groups allow that do not look back to its beginning.

Full attention can go on from wherever a prefix ends, as long as it is held whole. A group with a sliding window needs
the last blocks before that end, a mamba group the one state at it; engines keep them sparsely. vLLM looks for the
longest prefix that every group allows (`HybridKVCacheCoordinator.find_longest_cache_hit`), and so does this.
"""

from collections.abc import MutableMapping, Sequence, Set

from routing.changes import Change, WindowDrop, WindowPut, Wipe
from routing.types import BlockHash, EngineId, PrefixMatch, Tier


class Windows:
    """What each hybrid engine holds of such groups."""

    def __init__(self) -> None:
        self._groups: dict[EngineId, dict[int, tuple[int, set[BlockHash]]]] = {}

    def apply(self, engine: EngineId, change: Change) -> None:
        """Take in what a ledger derived from the engine's events; a change of another group is left out."""
        match change:
            case WindowPut(group, needed, blocks):
                groups = self._groups.setdefault(engine, {})
                held = groups[group][1] if group in groups else set()
                held.update(blocks)
                groups[group] = needed, held
            case WindowDrop(group, blocks):
                if group in self._groups.get(engine, ()):
                    self._groups[engine][group][1].difference_update(blocks)
            case Wipe(Tier.GPU | None):
                for _, held in self._groups.get(engine, {}).values():
                    held.clear()

    def forget(self, engine: EngineId) -> None:
        """The engine left."""
        self._groups.pop(engine, None)

    def limit(self, found: MutableMapping[EngineId, PrefixMatch], blocks: Sequence[BlockHash], most: int) -> None:
        """Cut what full attention allows of a prompt to what the other groups of hybrid engines allow too.

        blocks: the prompt's; most: how many of them the engine would look up.
        """
        for engine in found.keys() & self._groups.keys():
            longest = _longest(blocks, min(found[engine].l0, most), list(self._groups[engine].values()))
            if longest:
                found[engine] = PrefixMatch(longest, longest)
            else:
                del found[engine]


def _longest(blocks: Sequence[BlockHash], end: int, groups: Sequence[tuple[int, Set[BlockHash]]]) -> int:
    """The longest prefix of at most `end` blocks that every group allows."""
    while True:
        before = end
        for needed, held in groups:
            end = _last_end(blocks, end, needed, held)
        if end == before:
            return end


def _last_end(blocks: Sequence[BlockHash], end: int, needed: int, held: Set[BlockHash]) -> int:
    """The last end, not after `end`, before which `needed` blocks in a row are held, or all from the first."""
    in_a_row = 0
    for index in range(end - 1, -1, -1):
        in_a_row = in_a_row + 1 if blocks[index] in held else 0
        if in_a_row == needed:
            return index + needed
    return in_a_row
