"""The index in Redis: one small bitmap for each block, all of a model on one shard.

Reading never depends on who writes. Writing is for who has the lease of an engine's event stream (`tenure`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from gateway.redis.names import base, engine_id, engine_name, pack
from gateway.redis.scripts import (
    GATEWAYS,
    MATCH,
    ORPHANS,
    RENEW,
    SWEEP,
    Argument,
    Client,
    RedisIndexError,
    run,
    translated,
)
from routing.prefixes import BITS, prefix_matches
from routing.types import BlockHash, EngineId, PrefixMatch

_PAGE = 500


@dataclass(frozen=True, slots=True)
class _Table:
    """Which engine has which slot."""

    version: bytes
    engines: Mapping[int, EngineId]
    taken: int


class EngineRecord(NamedTuple):
    """An engine as the index has it."""

    gpu: int
    """blocks held"""
    cpu: int
    block_size: int | None
    """tokens per block, by its events"""
    unjudged: bool
    """its prefixes can't be told by its blocks, so there are none of it"""
    owned: bool
    """somebody has the lease of its event stream"""


class Round(NamedTuple):
    """What renewing leases told."""

    lost: frozenset[EngineId]
    """their leases are no longer ours"""
    wanted: frozenset[EngineId]
    """another gateway would have their leases"""
    engines: Mapping[EngineId, EngineRecord]


class RedisIndex:
    """The index of one deployment. prefix: what all its keys begin with."""

    def __init__(self, client: Client, prefix: str) -> None:
        self.client = client
        self._prefix = prefix
        self._tables: dict[str, _Table] = {}

    def base(self, model: str) -> str:
        """What all keys of this model begin with."""
        return base(self._prefix, model)

    async def match(self, model: str, blocks: Sequence[BlockHash]) -> dict[EngineId, PrefixMatch]:
        """How long a prefix of `blocks` each engine holds; engines that hold nothing are absent.

        Raises RedisIndexError.
        """
        if not blocks:
            return {}
        return self.read_match(model, len(blocks), await run(self.client, MATCH, *self.question(model, blocks)))

    def question(self, model: str, blocks: Sequence[BlockHash]) -> tuple[str, bytes, bytes]:
        """Key and arguments of script `match`. blocks: at least one."""
        key = base(self._prefix, model)
        table = self._tables.get(key)
        return key, table.version if table else b"", pack(blocks)

    def read_match(self, model: str, length: int, answer: object) -> dict[EngineId, PrefixMatch]:
        """The answer to `question` for a chain of `length` blocks. Raises RedisIndexError if it is an exception."""
        if isinstance(answer, Exception):
            raise translated(answer) from answer
        version, table, *places = cast(list[object], answer)
        key = base(self._prefix, model)
        if table is not None:
            self._tables[key] = _table(cast(bytes, version), cast(list[bytes], table))
        known = self._tables.get(key)
        if known is None or known.version != version:
            # Another answer of the same time brought a newer table; this one's slots may be others' by now.
            return {}
        found = prefix_matches(_runs(places), known.taken, length)
        return {known.engines[slot]: match for slot, match in found.items()}

    async def gateways(self, gateway: str, millis: int) -> Sequence[str]:
        """Say that a gateway is there for so long. Returns all that are. 0: it leaves. Raises RedisIndexError."""
        found = await run(self.client, GATEWAYS, f"{self._prefix}gateways", gateway, millis)
        return [name.decode() for name in found]

    async def renew(self, model: str, millis: int, fences: Mapping[EngineId, str]) -> Round:
        """Renew leases. fences: what proves each. Raises RedisIndexError."""
        pairs = [part for engine, fence in fences.items() for part in (engine_name(engine), fence)]
        lost, wanted, rows = await run(self.client, RENEW, base(self._prefix, model), millis, *pairs)
        engines = {
            engine_id(name.decode()): EngineRecord(
                int(gpu or 0), int(cpu or 0), int(size) if size else None, unjudged == b"1", bool(lease)
            )
            for name, _, gpu, cpu, size, unjudged, lease in zip(*(iter(rows),) * 7, strict=True)
        }
        return Round(_ids(lost), _ids(wanted), engines)

    async def forget_orphans(self, model: str, seconds: float) -> int:
        """Forget engines whose lease was free for so long. Returns how many. Raises RedisIndexError."""
        return int(await run(self.client, ORPHANS, base(self._prefix, model), int(seconds)))

    async def retired(self, model: str) -> Mapping[bytes, bytes]:
        """Slots whose bits are to be cleared, with the number of their retirement. Raises RedisIndexError."""
        try:
            return cast(Mapping[bytes, bytes], await self.client.hgetall(f"{base(self._prefix, model)}retired"))
        except Exception as exc:
            raise translated(exc) from exc

    async def sweep(self, model: str, retired: Mapping[bytes, bytes], cursor: str, page: int = _PAGE) -> str:
        """One step of a pass that clears retired slots. cursor: '0' to begin. Returns the next; '0': done.

        Raises RedisIndexError.
        """
        slots: list[Argument] = [part for pair in retired.items() for part in pair]
        answer = await run(self.client, SWEEP, base(self._prefix, model), cursor, page, *slots)
        return cast(bytes, answer).decode()


def _ids(names: Sequence[bytes]) -> frozenset[EngineId]:
    return frozenset(engine_id(name.decode()) for name in names)


def _table(version: bytes, flat: Sequence[bytes]) -> _Table:
    engines = {int(slot): engine_id(name.decode()) for slot, name in zip(flat[::2], flat[1::2], strict=True)}
    return _Table(version, engines, sum(1 << (slot * BITS) for slot in engines))


def _runs(places: Sequence[object]) -> Iterator[tuple[int, int]]:
    for depth, bitmap in zip(places[::2], places[1::2], strict=True):
        yield cast(int, depth), int.from_bytes(cast(bytes, bitmap), "little")


__all__ = ["EngineRecord", "RedisIndex", "RedisIndexError", "Round"]
