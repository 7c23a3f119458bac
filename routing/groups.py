"""The KV-cache groups of one engine, by how they bear on a prefix."""

from collections.abc import Sequence
from typing import NamedTuple

from routing.changes import Change, Drop, Put, WindowDrop, WindowPut
from routing.events import BlockStored
from routing.types import BlockHash, Tier

WHOLE_KINDS = frozenset({"full_attention", "mla_attention", "sink_full_attention"})
"""Groups whose blocks are a prefix as long as they are held."""
WINDOWED_KINDS = frozenset({"sliding_window", "sliding_window_mla", "mamba"})
"""Groups that need only what lies before a prefix's end (`windows.py`)."""


class _Window(NamedTuple):
    block_size: int
    needed: int
    """blocks in a row before a prefix's end"""


class Groups:
    """Which groups there are, and the changes that their gains and losses are."""

    def __init__(self) -> None:
        self._windows: dict[int, _Window] = {}
        self.unplaced: set[int] = set()
        """groups that can shorten a hit and are not understood"""

    @property
    def windowed(self) -> frozenset[int]:
        """Those that need only what lies before a prefix's end."""
        return frozenset(self._windows)

    def unjudged(self, block_size: int | None) -> frozenset[int]:
        """Those that can shorten a hit in ways not judged. block_size: full attention's, None until known."""
        uneven = {group for group, window in self._windows.items() if block_size not in (None, window.block_size)}
        return frozenset(self.unplaced | uneven)

    def learn(self, event: BlockStored) -> bool:
        """Whether the event is of a windowed group whose blocks are all alike; the group is then known."""
        if event.kind == "mamba":
            needed = 1
        elif event.kind in WINDOWED_KINDS and event.window is not None and event.block_size > 0:
            needed = max(1, -(-(event.window - 1) // event.block_size))
        else:
            return False
        window = _Window(event.block_size, needed)
        # Blocks of several sizes in one group: the engine looks up parts of blocks.
        return self._windows.setdefault(event.group, window) == window

    def put(self, tier: Tier, group: int, blocks: Sequence[BlockHash]) -> list[Change]:
        """The group holds these in this tier, and did not."""
        window = self._windows.get(group)
        if window is None:
            return [Put(tier, blocks)] if blocks else []
        # Without any blocks too: that there is such a group is what matters.
        return [WindowPut(group, window.needed, blocks)] if tier is Tier.GPU else []

    def drop(self, tier: Tier, group: int, blocks: Sequence[BlockHash]) -> list[Change]:
        """The group holds these in this tier no longer."""
        if not blocks:
            return []
        if group not in self._windows:
            return [Drop(tier, blocks)]
        return [WindowDrop(group, blocks)] if tier is Tier.GPU else []
