"""Random histories of a fleet: engine, bytes, feed, ledger, index, against what each engine really holds.

KVGATE_STEPS sets how long a history is; `make soak` plays a long one.
"""

import os
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from fleet_history import History
from simulated_fleet import Replica

from routing.index import PrefixIndex
from routing.types import BlockHash, EngineId, PrefixMatch

REPLICAS = 24
STEPS = int(os.environ.get("KVGATE_STEPS", "1000"))
"""in each history"""


class InMemory:
    """One gateway, which does not die. index: where replicas put what they tell."""

    faults: Mapping[str, int] = {}

    def __init__(self, index: PrefixIndex) -> None:
        self._index = index

    async def join(self, replica: Replica) -> None:
        replica.join()

    async def leave(self, replica: Replica) -> None:
        replica.leave()

    async def told(self, replica: Replica) -> None:
        return

    async def fail(self, fault: str, replica: Replica) -> None:
        raise NotImplementedError(fault)

    def followed(self, replica: Replica) -> bool:
        return replica.joined

    async def match(self, blocks: Sequence[BlockHash]) -> Mapping[EngineId, PrefixMatch]:
        return self._index.match(blocks)


@pytest.mark.parametrize("seed", range(2))
async def test_the_index_says_what_the_engines_hold_and_after_a_loss_never_more(seed: int) -> None:
    random, index = Random(seed), PrefixIndex()
    fleet = [Replica(number, index, random) for number in range(REPLICAS)]
    history = History(random, fleet, InMemory(index))
    await history.play(STEPS)
    assert min(history.compared.values()) > STEPS // 10, history.compared
