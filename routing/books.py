"""What a ledger knows beyond the index, as values that outlive its process."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from routing.types import BlockHash, EngineHash, Tier


class Copies(NamedTuple):
    """How often a block is held in one place."""

    tier: Tier
    group: int
    """KV-cache group"""
    number: int


class Traits(NamedTuple):
    """What is known of an engine as a whole."""

    block_size: int | None = None
    """tokens per block; None until known"""
    judged: tuple[int, ...] = ()
    """KV-cache groups that all have to hold a block"""
    offloads: bool = False
    """names outlive their blocks"""
    chunks: bool = False
    """LMCache keeps chunks in host memory, under names that are not among these"""
    looks_ahead: bool = False
    """it drafts tokens, and computes a block of each hit again"""


@dataclass(frozen=True, slots=True)
class Entries:
    """What changed in the books: with `names` and `copies` put over what was stored before, they are whole again."""

    names: Mapping[EngineHash, BlockHash | None]
    """engine's name -> ours; None: forgotten"""
    copies: Mapping[BlockHash, tuple[Copies, ...]]
    """blocks that are not simply held once in the one judged group where the index has them; empty: now they are"""
    traits: Traits


@dataclass(frozen=True, slots=True)
class Books:
    """Everything that a ledger has to know to go on where another stopped."""

    names: Mapping[EngineHash, BlockHash] = field(default_factory=dict)
    held: Mapping[Tier, Set[BlockHash]] = field(default_factory=dict)
    """what the index has of the engine"""
    copies: Mapping[BlockHash, tuple[Copies, ...]] = field(default_factory=dict)
    traits: Traits = field(default_factory=Traits)
