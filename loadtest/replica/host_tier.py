"""Host memory (L1) of one simulated engine: what is copied there, found again, dropped, and told of it."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

import xxhash

from loadtest.replica.kv_events import FULL_ATTENTION, BlockRemoved, BlockStored, KVEvent
from loadtest.replica.prefix_cache import PrefixCache
from loadtest.replica.request import Request

MEDIUM_CPU = "CPU"
MEDIUM_LMCACHE = "cpu"
_LMCACHE_ROOT = int.from_bytes(b"lmcache!", "big")


class Teller(Enum):
    """Whose events tell of host memory."""

    OFFLOADING = "offloading"
    """vLLM's connector as shipped: blocks by their hashes alone, in any order; removals are told"""
    DESCRIBING = "describing"
    """the same with `self_describing_kv_events`"""
    LMCACHE = "lmcache"
    """LMCache inside the engine: whole chunks under hashes of its own, salts ignored; removals are not told"""


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Host memory of an engine."""

    blocks: int
    """GPU blocks that fit"""
    teller: Teller = Teller.OFFLOADING
    chunk_blocks: int = 16
    """blocks in a chunk of LMCache's"""
    ms_per_token: float = 0.005
    """of loading"""


class HostTier:
    """Prompts are copied when they are prefilled; what was longest unused makes room. seed: of the order of telling."""

    def __init__(self, settings: HostSettings, seed: int) -> None:
        self.settings = settings
        self._random = Random(seed)
        self._held: OrderedDict[int, None] = OrderedDict()
        self._unit = settings.chunk_blocks if settings.teller is Teller.LMCACHE else 1

    def holds(self, name: int) -> bool:
        """Whether what has this hash is there: a block, or a chunk of LMCache's."""
        return name in self._held

    def find(self, request: Request, first: int) -> int:
        """How many blocks in a row from the start can be had if the first `first` need not be looked up."""
        names = self._names(request)
        units = first // self._unit
        while units < len(names) and names[units] in self._held:
            self._held.move_to_end(names[units])
            units += 1
        return max(first, units * self._unit)

    def load(self, request: Request, cache: PrefixCache) -> float:
        """Take what goes beyond the blocks that the request has. Returns the milliseconds that it takes."""
        most = (len(request.tokens) - 1) // request.block_size
        loaded = min(self.find(request, len(request.blocks)), most) * request.block_size - request.computed
        if loaded <= 0:
            return 0.0
        cache.grow(request, loaded)
        request.computed += loaded
        return loaded * self.settings.ms_per_token

    def store(self, request: Request) -> list[KVEvent]:
        """Copy a prompt that is prefilled. Returns what is told."""
        names = self._names(request)[: request.prompt_length // (request.block_size * self._unit)]
        new = [number for number, name in enumerate(names) if name not in self._held]
        for name in reversed(names):
            self._held[name] = None
            self._held.move_to_end(name)
        gone: list[int] = []
        while len(self._held) * self._unit > self.settings.blocks:
            gone.append(self._held.popitem(last=False)[0])
        if self.settings.teller is Teller.LMCACHE:
            return [self._chunk(request, names, number, new[0]) for number in new]
        self._random.shuffle(new)
        stored: list[KVEvent] = [self._block(request, number) for number in new]
        return [*stored, BlockRemoved(gone, MEDIUM_CPU, group_idx=0)] if gone else stored

    def _names(self, request: Request) -> Sequence[int]:
        """What host memory calls the full units of a request."""
        if self.settings.teller is not Teller.LMCACHE:
            return request.hashes
        size = self._unit * request.block_size
        names, parent = [], _LMCACHE_ROOT
        for start in range(0, len(request.tokens) - size + 1, size):
            parent = xxhash.xxh3_64_intdigest(array("I", request.tokens[start : start + size]).tobytes(), parent)
            names.append(parent)
        return names

    def _block(self, request: Request, number: int) -> BlockStored:
        name, size = request.hashes[number], request.block_size
        if self.settings.teller is Teller.OFFLOADING:
            return BlockStored([name], None, [], 0, None, MEDIUM_CPU, None, group_idx=0)
        parent = request.hashes[number - 1] if number else None
        tokens = request.tokens[number * size : (number + 1) * size]
        return BlockStored(
            [name], parent, tokens, size, None, MEDIUM_CPU, None, group_idx=0, kv_cache_spec_kind=FULL_ATTENTION
        )

    def _chunk(self, request: Request, names: Sequence[int], number: int, first: int) -> BlockStored:
        """As LMCache sends it: a token too many where one follows, and no parent where a call goes on from another."""
        size = self._unit * request.block_size
        tokens = request.tokens[number * size : min((number + 1) * size + 1, request.prompt_length)]
        parent = None if number == 0 else 0 if number == first else names[number - 1]
        return BlockStored([names[number]], parent, tokens, size, None, MEDIUM_LMCACHE, None)
