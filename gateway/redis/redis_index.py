"""The index in Redis: one small bitmap for each block, all of a model on one shard.

Reading never depends on who writes. Writing is for who has the lease of an engine's event stream (`tenure`).
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, cast

from gateway.redis.guesses import MOST, Guesses
from gateway.redis.looks import Found, Search, Table, table_of
from gateway.redis.names import base, engine_id, engine_name
from gateway.redis.reading import Connections, read
from gateway.redis.scripts import (
    GATEWAYS,
    MODELS,
    ORPHANS,
    RENEW,
    SWEEP,
    TABLE,
    Argument,
    Asking,
    Client,
    RedisIndexError,
    run,
    translated,
)
from routing.types import BlockHash, EngineId

_PAGE = 500
_PATIENCE = 1.0
"""seconds that searches may take; requests wait much shorter"""


class EngineRecord(NamedTuple):
    """An engine as the index has it."""

    gpu: int
    """blocks held"""
    cpu: int
    block_size: int | None
    """tokens per block, by its events"""
    unjudged: bool
    """its prefixes can't be told by its blocks, so there are none of it"""
    looks_ahead: bool
    """it computes a block of each hit again"""
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
    """The index of one deployment.

    prefix: what all its keys begin with.
    remembered: stretches of chains in which holders changed, where the next search looks first.
    """

    def __init__(self, client: Client, prefix: str, remembered: int = MOST) -> None:
        self.client = client
        self._prefix = prefix
        self._connections = Connections(client)
        self._tables: dict[str, Table] = {}
        self._guesses = Guesses(remembered)

    def base(self, model: str) -> str:
        """What all keys of this model begin with."""
        return base(self._prefix, model)

    async def match(self, model: str, blocks: Sequence[BlockHash]) -> Found:
        """How long a prefix of `blocks` each engine holds; engines that hold nothing are absent.

        Raises RedisIndexError.
        """
        (found,) = await self.matches(model, [blocks])
        return found

    async def matches(self, model: str, chains: Sequence[Sequence[BlockHash]]) -> Sequence[Found]:
        """As `match`, for chains that are searched together."""
        searches = [Search(chain, self._guesses) for chain in chains]
        key = base(self._prefix, model)
        table = self._tables.get(key) or await self._read_table(key)
        try:
            async with asyncio.timeout(_PATIENCE), self._connections.borrowed(key) as connection:
                while looking := [search for search in searches if search.blocks]:
                    blocks: list[BlockHash] = []
                    for search in looking:
                        blocks += search.blocks
                    version, bitmaps = await read(connection, f"{key}version", f"{key}b", blocks)
                    if (version or b"") != table.version:
                        table = await self._read_table(key)
                        continue
                    for search in looking:
                        search.saw(bitmaps, table)
        except (TimeoutError, RedisIndexError) as exc:
            # The table is read the library's own way, which finds out where in a cluster the key is now.
            self._tables.pop(key, None)
            if isinstance(exc, TimeoutError):
                raise translated(exc) from exc
            raise
        return [search.found for search in searches]

    async def _read_table(self, key: str) -> Table:
        version, *rows = await run(self.client, TABLE, key)
        engines = {int(slot): engine_id(name.decode()) for slot, name in zip(rows[::2], rows[1::2], strict=True)}
        self._tables[key] = found = table_of(version, engines)
        return found

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
                int(gpu or 0),
                int(cpu or 0),
                int(size) if size else None,
                unjudged == b"1",
                looks_ahead == b"1",
                bool(lease),
            )
            for name, _, gpu, cpu, size, unjudged, looks_ahead, lease in zip(*(iter(rows),) * 8, strict=True)
        }
        return Round(_ids(lost), _ids(wanted), engines)

    async def models(self, served: Collection[str]) -> Collection[str]:
        """Say which models are served here. Returns all of which something may be left. Raises RedisIndexError."""
        return [model.decode() for model in await run(self.client, MODELS, f"{self._prefix}models", *served)]

    async def forget_model(self, model: str) -> None:
        """Look after it no longer if nothing of it is left that could be cleared. Raises RedisIndexError."""
        of_model = base(self._prefix, model)
        with Asking():
            if not await self.client.exists(f"{of_model}engines", f"{of_model}retired"):
                await self.client.srem(f"{self._prefix}models", model)

    async def forget_orphans(self, model: str, seconds: float) -> int:
        """Forget engines whose lease was free for so long. Returns how many. Raises RedisIndexError."""
        return int(await run(self.client, ORPHANS, base(self._prefix, model), int(seconds)))

    async def retired(self, model: str) -> Mapping[bytes, bytes]:
        """Slots whose bits are to be cleared, with the number of their retirement. Raises RedisIndexError."""
        with Asking():
            return cast(Mapping[bytes, bytes], await self.client.hgetall(f"{base(self._prefix, model)}retired"))

    async def sweep(self, model: str, retired: Mapping[bytes, bytes], cursor: str, page: int = _PAGE) -> str:
        """One step of a pass that clears retired slots. cursor: '0' to begin. Returns the next; '0': done.

        Raises RedisIndexError.
        """
        slots: list[Argument] = [part for pair in retired.items() for part in pair]
        answer = await run(self.client, SWEEP, base(self._prefix, model), cursor, page, *slots)
        return cast(bytes, answer).decode()


def _ids(names: Sequence[bytes]) -> frozenset[EngineId]:
    return frozenset(engine_id(name.decode()) for name in names)


__all__ = ["EngineRecord", "RedisIndex", "RedisIndexError", "Round"]
