"""An engine's lease: who has it writes what its events change, and goes on where the one before stopped."""

import logging
from struct import Struct
from typing import cast

from gateway.kv.position import Kept, Position
from gateway.redis.batch import Batch, read_copies
from gateway.redis.names import engine_name
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import ACQUIRE, APPLY, LOAD, RELEASE, run, translated
from routing.books import Books, Copies, Traits
from routing.types import BlockHash, EngineHash, EngineId, Tier

logger = logging.getLogger(__name__)

CALL = 1024
"""blocks and names in one call: about a millisecond of Redis, which is what a match may have to wait"""
_PAGE = 1000
_NAME = Struct("<QQB")
"""as script `load` gives them; `0` to `3` are 0 to 3 in their last two bits"""


class Tenure:
    """The time that this process owns an engine's event stream. Once fenced, it writes nothing more."""

    def __init__(self, index: RedisIndex, model: str, engine: EngineId, fence: str, record: dict[bytes, bytes]) -> None:
        self._client = index.client
        self._key = index.base(model)
        self._name = engine_name(engine)
        self.model = model
        self.engine = engine
        self.fence = fence
        self._record = record
        self._slot = record.get(b"slot", b"")
        self._applied = record.get(b"seq", b"").decode()
        self._tried = self._applied

    async def load(self) -> Kept | None:
        """What the owner before has left; None if nothing that can be gone on with. Raises RedisIndexError."""
        record = self._record
        if not record.get(b"seq") or record.get(b"dirty") or not self._slot:
            return None
        names: dict[EngineHash, BlockHash] = {}
        held: dict[Tier, set[BlockHash]] = {Tier.GPU: set(), Tier.CPU: set()}
        cursor = b"0"
        while True:
            cursor, page = await run(self._client, LOAD, self._key, self._name, self._slot, cursor, _PAGE)
            _read_names(cast(bytes, page), names, held)
            if cursor == b"0":
                break
        return Kept(
            Books(names, held, await self._copies(), _traits(record)),
            Position(int(record[b"seq"]), record[b"proof"], float(record[b"ts"])),
        )

    async def apply(self, batch: Batch, most: int = CALL) -> None:
        """Write a batch. Raises Fenced, and RedisIndexError: it may have been taken in or not; send it again."""
        seq = "" if batch.position is None else str(batch.position.seq)
        for arguments in batch.calls(most):
            known = f"|{self._applied}|{self._tried}|{seq}|"
            if not arguments[0]:
                self._tried = seq
            (self._slot,) = await run(
                self._client, APPLY, self._key, self._name, self.fence, self._slot, known, *arguments
            )
            if arguments[0] == "all":
                self._applied = self._tried = ""
        self._applied = self._tried = seq

    def goes_on_from(self, earlier: "Tenure") -> bool:
        """Whether Redis has the engine as `earlier`, of this gateway, left it, and nobody else had it in between."""
        gateway, _, number = earlier.fence.rpartition(" ")
        return (
            self.fence == f"{gateway} {int(number) + 1}"
            and self._slot == earlier._slot
            and self._applied in (earlier._applied, earlier._tried)
            and not self._record.get(b"dirty")
        )

    async def release(self, *, forget: bool) -> None:
        """Give the lease back; `forget`: with all that is known of the engine. Raises RedisIndexError."""
        await run(self._client, RELEASE, self._key, self._name, self.fence, "forget" if forget else "keep")

    async def _copies(self) -> dict[BlockHash, tuple[Copies, ...]]:
        found: dict[BlockHash, tuple[Copies, ...]] = {}
        try:
            async for field, value in self._client.hscan_iter(f"{self._key}c:{self._name}", count=_PAGE):
                found[BlockHash(int.from_bytes(field, "little"))] = read_copies(value)
        except Exception as exc:
            raise translated(exc) from exc
        return found


async def acquire(
    index: RedisIndex, model: str, engine: EngineId, gateway: str, millis: int, *, wanted: bool = False
) -> Tenure | None:
    """The engine's lease for so long, if no other gateway has it. wanted: that one shall hear of it.

    Raises RedisIndexError.
    """
    answer = await run(index.client, ACQUIRE, index.base(model), engine_name(engine), gateway, millis, int(wanted))
    if not answer:
        return None
    fence, *flat = cast(list[bytes], answer)
    return Tenure(index, model, engine, fence.decode(), dict(zip(flat[::2], flat[1::2], strict=True)))


def _read_names(page: bytes, names: dict[EngineHash, BlockHash], held: dict[Tier, set[BlockHash]]) -> None:
    in_gpu, in_cpu = held[Tier.GPU], held[Tier.CPU]
    for hash_, number, tiers in _NAME.iter_unpack(page):
        names[hash_] = block = BlockHash(number)
        if tiers & 1:
            in_gpu.add(block)
        if tiers & 2:
            in_cpu.add(block)


def _traits(record: dict[bytes, bytes]) -> Traits:
    judged = record.get(b"judged", b"").decode()
    size = record.get(b"block_size", b"")
    return Traits(
        block_size=int(size) if size else None,
        judged=tuple(map(int, judged.split(","))) if judged else (),
        offloads=record.get(b"offloads") == b"1",
        chunks=record.get(b"chunks") == b"1",
    )
