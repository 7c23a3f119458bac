"""What the index is told: how an engine's blocks changed."""

from collections.abc import Sequence
from typing import NamedTuple

from routing.types import BlockHash, Tier


class Put(NamedTuple):
    """Blocks that the engine did not hold in this tier and now does."""

    tier: Tier
    blocks: Sequence[BlockHash]


class Drop(NamedTuple):
    """Blocks whose last copy in this tier is gone."""

    tier: Tier
    blocks: Sequence[BlockHash]


class Wipe(NamedTuple):
    """Everything in this tier is gone; in every tier if None."""

    tier: Tier | None


class WindowPut(NamedTuple):
    """A group that needs only the blocks before a prefix's end holds these in the GPU, and did not (`windows.py`)."""

    group: int
    needed: int
    """blocks in a row before the end"""
    blocks: Sequence[BlockHash]


class WindowDrop(NamedTuple):
    """Such a group's last copy of these is gone."""

    group: int
    blocks: Sequence[BlockHash]


Change = Put | Drop | Wipe | WindowPut | WindowDrop
