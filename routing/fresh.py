"""Blocks credited to an engine from the decision on, until its events confirm them.

Events come when the engine has got to the prompt, which under load is many seconds after the decision. Without credits
a burst of equal prompts would scatter over the fleet, and more so the longer the queues are.
"""

from collections.abc import Sequence, Set
from math import inf

from routing.changes import Change, Drop, Put, Wipe
from routing.credits import Credits
from routing.types import BlockHash, EngineId, Tier


class FreshRoutes:
    """Credits that count while their prompt has no first token, and shortly after.

    Until its first token the prompt is in front of whatever is sent to the engine now, so its blocks will be there in
    time, even where an event says meanwhile that they were evicted.

    lifetime: seconds after the first token that a credit counts at the most, if no event speaks of the block before.
    """

    def __init__(self, lifetime: float) -> None:
        self._lifetime = lifetime
        self._ours = Credits()
        self._told = Credits()
        """by other gateways"""

    @property
    def credited(self) -> Set[EngineId]:
        """The engines that have credits of our own, expired ones among them."""
        return self._ours.engines

    @property
    def told_of(self) -> Set[EngineId]:
        """The engines that have credits by what other gateways have told, expired ones among them."""
        return self._told.engines

    def credit(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """A prompt of these blocks goes there."""
        self._ours.lengthen(engine, blocks, inf)

    def began(self, engine: EngineId, blocks: Sequence[BlockHash], now: float) -> None:
        """The prompt of these blocks has its first token: from now on events tell of them."""
        self._ours.expire(now)
        if engine in self.credited:
            self._ours.set_end(engine, blocks, now + self._lifetime)

    def hear(self, engine: EngineId, blocks: Sequence[BlockHash], until: float, now: float) -> None:
        """Another gateway has sent a prompt there of which these blocks are new. They are likely held until then.

        Not more than likely: of what became of the prompt nothing is told.
        """
        self._told.expire(now)
        self._told.lengthen(engine, blocks, until)

    def extend(self, engine: EngineId, blocks: Sequence[BlockHash], depth: int, now: float) -> int:
        """How many leading blocks the engine has, given that it holds `depth` of them. Returns at least `depth`."""
        return self._ours.reach(engine, blocks, depth, now)

    def extend_by_hearsay(self, engine: EngineId, blocks: Sequence[BlockHash], depth: int, now: float) -> int:
        """How many leading blocks the engine likely has, by what other gateways have told too."""
        while engine in self.told_of:
            further = self._told.reach(engine, blocks, self._ours.reach(engine, blocks, depth, now), now)
            if further == depth:
                break
            depth = further
        return depth

    def extend_to_an_end(self, engine: EngineId, blocks: Sequence[BlockHash], depth: int, now: float) -> int:
        """As `extend`, no further than a credited prompt as a whole: for models that can't go on from its middle."""
        return self._ours.reach_an_end(engine, blocks, depth, now)

    def apply(self, engine: EngineId, changes: Sequence[Change]) -> None:
        """Take in what a ledger derived from the engine's events, in order. Credits are of the GPU only."""
        for change in changes:
            if isinstance(change, Wipe):
                if change.tier in (None, Tier.GPU):
                    self.forget(engine)
            elif isinstance(change, (Put, Drop)) and change.tier is Tier.GPU:
                self.settle(engine, change.blocks)

    def settle(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """Events have spoken of `blocks`: where they are part of a prompt that began, they are no longer credited."""
        self._ours.settle(engine, blocks)
        self._told.settle(engine, blocks)

    def withdraw(self, engine: EngineId, blocks: Sequence[BlockHash]) -> None:
        """The prompt of these blocks got no answer there, so nothing says that they are, or will be, held."""
        self._ours.withdraw(engine, blocks)

    def forget(self, engine: EngineId) -> None:
        """The engine left, or its cache is gone."""
        self._ours.forget(engine)
        self._told.forget(engine)
