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


Change = Put | Drop | Wipe
