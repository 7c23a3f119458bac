"""What the index is told: how an engine's blocks changed.

Nobody changes one that is made. They are not frozen because there are thousands a second, as of events.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from routing.types import BlockHash, Tier


@dataclass(slots=True)
class Put:
    """Blocks that the engine did not hold in this tier and now does."""

    tier: Tier
    blocks: Sequence[BlockHash]


@dataclass(slots=True)
class Drop:
    """Blocks whose last copy in this tier is gone."""

    tier: Tier
    blocks: Sequence[BlockHash]


@dataclass(slots=True)
class Wipe:
    """Everything in this tier is gone; in every tier if None."""

    tier: Tier | None


@dataclass(slots=True)
class WindowPut:
    """A group that needs only the blocks before a prefix's end holds these in the GPU, and did not (`windows.py`)."""

    group: int
    needed: int
    """blocks in a row before the end"""
    blocks: Sequence[BlockHash]


@dataclass(slots=True)
class WindowDrop:
    """Such a group's last copy of these is gone."""

    group: int
    blocks: Sequence[BlockHash]


Change = Put | Drop | Wipe | WindowPut | WindowDrop


def wipes_all(changes: Iterable[Change]) -> bool:
    """Whether among these is that everything is gone."""
    return any(isinstance(change, Wipe) and change.tier is None for change in changes)
