"""What an engine probably holds, from the gateway's own decisions: works with any engine, hears of no eviction."""

from collections import OrderedDict
from collections.abc import Sequence

from routing.index import PrefixIndex
from routing.ledger import Drop, Put
from routing.types import BlockHash, EngineId, PrefixMatch, Tier

BLOCK_BYTES = 550
"""what a remembered block takes at the most: 300 on average, and more while a table has just grown"""


class RouteHistory:
    """The last blocks sent to each engine, the longest unused forgotten first.

    capacity: blocks remembered for each engine, > 0. limit: bytes in all, of which each engine has an equal share.
    lifetime: seconds after its last use that a block is forgotten.
    """

    def __init__(self, capacity: int, limit: int, lifetime: float) -> None:
        self._capacity = capacity
        self._most = limit // BLOCK_BYTES
        self._lifetime = lifetime
        self._index = PrefixIndex()
        self._used: dict[EngineId, OrderedDict[BlockHash, float]] = {}

    def match(self, blocks: Sequence[BlockHash]) -> dict[EngineId, PrefixMatch]:
        """How long a prefix of `blocks` was sent to each engine; engines that got none of it are absent."""
        return self._index.match(blocks)

    def record(self, engine: EngineId, blocks: Sequence[BlockHash], now: float) -> None:
        """The engine is getting a prompt of these blocks."""
        used = self._used.get(engine)
        if used is None:
            used = self._used[engine] = OrderedDict()
            for other in self._used:  # their shares are smaller now
                self._index.apply(other, [Drop(Tier.GPU, self._aged(other, now))])
        new = [block for block in blocks if block not in used]
        for block in reversed(blocks):  # the tail ages first, as in vLLM
            used[block] = now
            used.move_to_end(block)
        self._index.apply(engine, [Put(Tier.GPU, new), Drop(Tier.GPU, self._aged(engine, now))])

    def forget(self, engine: EngineId) -> None:
        """The engine left, or its cache is gone."""
        self._used.pop(engine, None)
        self._index.forget(engine)

    def _aged(self, engine: EngineId, now: float) -> Sequence[BlockHash]:
        """Takes out of an engine's blocks what there is no more room or time for."""
        used = self._used[engine]
        room = min(self._capacity, self._most // len(self._used))
        old = []
        while used and (len(used) > room or next(iter(used.values())) < now - self._lifetime):
            old.append(used.popitem(last=False)[0])
        return old
