"""The words of the routing core."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, NewType

ReplicaId = NewType("ReplicaId", str)
"""One vLLM server, named by its network place: `10.0.3.7:8000`, `[fd00::7]:8000`."""

BlockHash = NewType("BlockHash", int)
"""Our name for a block: 64 bit, chained, the same on every replica (`blocks.py`)."""

EngineHash = NewType("EngineHash", int)
"""The engine's name for a block: the last 8 bytes of its hash, big endian; meaningful within one engine only.

vLLM sends either this integer or the whole digest (`VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES`); reducing the digest to it
keeps one form.
"""


class EngineId(NamedTuple):
    """One data-parallel rank of a replica: the unit that has a prefix cache, a queue and an event stream of its own."""

    replica: ReplicaId
    rank: int


class Tier(IntEnum):
    """Where a block lies, fastest first."""

    GPU = 0
    CPU = 1
    STORAGE = 2


class PrefixMatch(NamedTuple):
    """How many leading blocks of a prompt an engine holds."""

    l0: int
    """blocks in a row from the first, in GPU memory"""
    l1: int
    """blocks in a row from the first, in GPU or host memory; l1 >= l0"""


class Namespace(NamedTuple):
    """What must be equal for two engines to give a block the same `BlockHash`."""

    model: str
    """the base model's canonical name: the first id that the replica lists without a parent"""
    block_size: int
    """tokens per block"""


Chains = Mapping[Namespace, Sequence[BlockHash]]
"""A prompt's full blocks, once for each namespace among the engines that serve its model (nearly always one)."""
