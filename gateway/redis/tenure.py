"""An engine's lease: who has it writes what its events change, and goes on where the one before stopped."""

import logging
from collections.abc import Sequence
from itertools import compress
from typing import cast

from gateway.kv.position import Kept, Position
from gateway.redis.batch import Batch, read_copies
from gateway.redis.names import engine_name, unpack
from gateway.redis.redis_index import RedisIndex
from gateway.redis.scripts import ACQUIRE, APPLY, LOAD, RELEASE, run, translated
from routing.books import Books, Copies, Traits
from routing.index import INDEXED_TIERS
from routing.types import BlockHash, EngineHash, EngineId, Tier

logger = logging.getLogger(__name__)

CALL = 1024
"""blocks and names in one call: about a millisecond of Redis, which is what a match may have to wait"""
_PAGE = 1000
_HELD = {tier: bytes(digit >> tier & 1 for digit in range(256)) for tier in INDEXED_TIERS}
"""for each digit that script `load` gives a block, whether the tier holds it: `0` to `3` end in the bits of 0 to 3"""


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
        self._moving = False
        """a reset is under way, or had no answer: the slot may be another"""

    @property
    def standing(self) -> str:
        """What proves the lease, and that Redis has the engine as it was written last."""
        slot = "" if self._moving else self._slot.decode()
        return f"{self.fence}|{slot}|{self._applied}"

    async def load(self) -> Kept | None:
        """What the owner before has left; None if nothing that can be gone on with. Raises Fenced, RedisIndexError."""
        record = self._record
        if not record.get(b"seq") or record.get(b"dirty") or not self._slot:
            return None
        # Before the rest, each page of which proves the lease: so these, too, are of the server that gave it.
        copies = await self._copies()
        names: dict[EngineHash, BlockHash] = {}
        held: dict[Tier, set[BlockHash]] = {tier: set() for tier in INDEXED_TIERS}
        cursor = b"0"
        while True:
            cursor, pairs, tiers = await run(
                self._client, LOAD, self._key, self._name, self.fence, self._slot, cursor, _PAGE
            )
            numbers = unpack(pairs)
            blocks = cast(Sequence[BlockHash], numbers[1::2])
            names.update(zip(cast(Sequence[EngineHash], numbers[::2]), blocks, strict=True))
            for tier in held:
                held[tier].update(compress(blocks, tiers.translate(_HELD[tier])))
            if cursor == b"0":
                break
        return Kept(
            Books(names, held, copies, _traits(record)),
            Position(int(record[b"seq"]), record[b"proof"], float(record[b"ts"])),
        )

    async def apply(self, batch: Batch, most: int = CALL) -> None:
        """Write a batch. Raises Fenced, and RedisIndexError: it may have been taken in or not; send it again."""
        seq = "" if batch.position is None else str(batch.position.seq)
        for arguments in batch.calls(most):
            known = f"|{self._applied}|{self._tried}|{seq}|"
            if not arguments[0]:
                self._tried = seq
            else:
                self._moving = True
            (self._slot,) = await run(
                self._client, APPLY, self._key, self._name, self.fence, self._slot, known, *arguments
            )
            self._moving = False
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


def _traits(record: dict[bytes, bytes]) -> Traits:
    judged = record.get(b"judged", b"").decode()
    size = record.get(b"block_size", b"")
    return Traits(
        block_size=int(size) if size else None,
        judged=tuple(map(int, judged.split(","))) if judged else (),
        offloads=record.get(b"offloads") == b"1",
        chunks=record.get(b"chunks") == b"1",
        looks_ahead=record.get(b"looks_ahead") == b"1",
    )
