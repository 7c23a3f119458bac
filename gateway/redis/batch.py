"""What an engine's events changed, on its way to Redis."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from struct import Struct
from typing import Any

from gateway.kv.position import Position
from gateway.redis.names import pack
from gateway.redis.scripts import Argument
from routing.books import Copies, Entries, Traits
from routing.changes import Change, Drop, Put, Wipe
from routing.index import INDEXED_TIERS
from routing.types import BlockHash, EngineHash, Tier

_COPIES = Struct("<BBH")
_KEY = Struct("<Q")
_MOST_PLACES = 60


@dataclass(slots=True)
class Batch:
    """The net effect of any number of updates in a row: what is held in the end, not what came and went.

    Taking it in twice has the effect of once, so a batch that got no answer can be sent again.
    """

    reset: str = ""
    """'bits': the engine moves to a new slot, 'all': it also forgets its names"""
    held: tuple[dict[BlockHash, bool], dict[BlockHash, bool]] = field(default_factory=lambda: ({}, {}))
    names: dict[EngineHash, BlockHash | None] = field(default_factory=dict)
    copies: dict[BlockHash, tuple[Copies, ...]] = field(default_factory=dict)
    traits: Traits = field(default_factory=Traits)
    position: Position | None = None
    unjudged: bool = False
    """the engine's prefixes can't be told by its blocks alone, so there are none of it"""

    def __len__(self) -> int:
        """Blocks and names that it speaks of."""
        return sum(map(len, self.held)) + len(self.names) + len(self.copies)

    def __bool__(self) -> bool:
        """Even an empty one says how far the stream is applied."""
        return True

    def add(
        self,
        changes: Sequence[Change],
        entries: Entries | None,
        position: Position | None,
        remaining: Callable[[Tier], Set[BlockHash]],
    ) -> None:
        """Go on with an update. remaining: what the engine holds in a tier after it.

        entries: absent while more parts of the same update follow.
        """
        for change in changes:
            if isinstance(change, Wipe):
                self._wipe(change.tier, remaining)
            elif isinstance(change, Put | Drop) and change.tier in INDEXED_TIERS:
                self.held[change.tier].update(dict.fromkeys(change.blocks, isinstance(change, Put)))
        if entries is not None:
            self.names.update(entries.names)
            self.copies.update(entries.copies)
            self.traits = entries.traits
        self.position = position

    def follow(self, later: "Batch") -> None:
        """Go on with what a later batch says."""
        if later.reset == "all":
            self.names.clear()
            self.copies.clear()
        if later.reset:
            self.reset = "all" if "all" in (self.reset, later.reset) else "bits"
            for tier in self.held:
                tier.clear()
        for tier, newer in zip(self.held, later.held, strict=True):
            tier.update(newer)
        self.names.update(later.names)
        self.copies.update(later.copies)
        self.traits, self.position, self.unjudged = later.traits, later.position, later.unjudged

    def calls(self, most: int) -> Iterator[list[Argument]]:
        """The arguments of script `apply` from the reset on, in calls of at most `most` blocks or names each.

        What is gone comes first, so that the index never has more than before or after. The last call says how far the
        stream is applied.
        """
        columns = self._columns()
        if sum(map(len, columns)) <= most:
            yield [
                self.reset,
                *(packed(column) for packed, column in zip(_PACKERS, columns, strict=True)),
                "1",
                *self._fields(),
            ]
            return
        begun = False
        for number, (packed, column) in enumerate(zip(_PACKERS, columns, strict=True)):
            for start in range(0, len(column), most):
                parts: list[Argument] = [b""] * len(_PACKERS)
                parts[number] = packed(column[start : start + most])
                yield ["" if begun else self.reset, *parts, ""]
                begun = True
        yield ["", *[b""] * len(_PACKERS), "1", *self._fields()]

    def _wipe(self, tier: Tier | None, remaining: Callable[[Tier], Set[BlockHash]]) -> None:
        if tier is None:
            self.reset = "all"
            for held in self.held:
                held.clear()
            self.names.clear()
            self.copies.clear()
        elif tier in INDEXED_TIERS:
            self.reset = self.reset or "bits"
            other = Tier.CPU if tier is Tier.GPU else Tier.GPU
            self.held[tier].clear()
            self.held[other].clear()
            self.held[other].update(dict.fromkeys(remaining(other), True))

    def _columns(self) -> Sequence[Sequence[Any]]:
        """As script `apply` has them."""
        gpu, cpu = self.held
        given = [(hash_, block) for hash_, block in self.names.items() if block is not None]
        forgotten = [hash_ for hash_, block in self.names.items() if block is None]
        counted = [(block, places) for block, places in self.copies.items() if places]
        single = [block for block, places in self.copies.items() if not places]
        return (
            [block for block, there in gpu.items() if not there],
            [block for block, there in cpu.items() if not there],
            [block for block, there in gpu.items() if there],
            [block for block, there in cpu.items() if there],
            given,
            forgotten,
            counted,
            single,
        )

    def _fields(self) -> list[Argument]:
        traits, position = self.traits, self.position
        return [
            "unjudged", int(self.unjudged),
            "block_size", traits.block_size or "",
            "judged", ",".join(map(str, traits.judged)),
            "offloads", int(traits.offloads),
            "chunks", int(traits.chunks),
            "looks_ahead", int(traits.looks_ahead),
            "seq", "" if position is None else position.seq,
            "proof", b"" if position is None else position.proof,
            "ts", "" if position is None else repr(position.ts),
        ]  # fmt: skip


def read_copies(packed: bytes) -> tuple[Copies, ...]:
    """Copies as stored -> as they are."""
    return tuple(Copies(Tier(tier), group, number) for tier, group, number in _COPIES.iter_unpack(packed))


def _pack_pairs(pairs: Sequence[tuple[int, int]]) -> bytes:
    return pack(chain.from_iterable(pairs))


def _pack_copies(counted: Iterable[tuple[BlockHash, Sequence[Copies]]]) -> bytes:
    parts: list[bytes] = []
    for block, places in counted:
        packed = b"".join(
            _COPIES.pack(tier, group, min(number, 0xFFFF)) for tier, group, number in places[:_MOST_PLACES]
        )
        parts += (_KEY.pack(block), bytes([len(packed)]), packed)
    return b"".join(parts)


_PACKERS: Sequence[Callable[[Sequence[Any]], bytes]] = (
    pack, pack, pack, pack, _pack_pairs, pack, _pack_copies, pack,
)  # fmt: skip
"""for each column"""
