"""One simulated replica and the way its KV events take to an index."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import cast

from loadtest.replica import kv_events
from loadtest.replica.engine import DEFAULT_TOKEN_BUDGET, Engine
from loadtest.replica.timing import Profile
from routing.changes import Change
from routing.events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent
from routing.ledger import Ledger
from routing.types import EngineHash, Tier


class Site:
    """A replica of one rank: its engine, and the books that a gateway keeps of it.

    blocks: usable ones. model: as the gateways name it.
    """

    def __init__(
        self, profile: Profile, blocks: int, block_size: int, *, model: str, token_budget: int = DEFAULT_TOKEN_BUDGET
    ) -> None:
        self.block_size = block_size
        self.lives = 0
        """restarts so far"""
        self.busy = False
        """whether a step is under way"""
        self._model = model
        self._new_engine = partial(Engine, profile, blocks + 1, block_size, token_budget)
        self.engine = self._new_engine()
        self._ledger = Ledger(b"", model)

    def restart(self) -> None:
        """It died and begins anew, with an empty cache."""
        self.lives += 1
        self.busy = False
        self.engine = self._new_engine()
        self._ledger = Ledger(b"", self._model)

    def changes(self, events: Sequence[kv_events.KVEvent]) -> list[Change]:
        """What these events mean for an index."""
        return [change for event in _translated(events) for change in self._ledger.apply(event)]


def _translated(events: Iterable[kv_events.KVEvent]) -> Iterable[KVEvent]:
    for event in events:
        if isinstance(event, kv_events.BlockStored):
            yield BlockStored(
                hashes=cast(Sequence[EngineHash], event.block_hashes),
                parent=cast(EngineHash | None, event.parent_block_hash),
                tokens=event.token_ids,
                block_size=event.block_size,
                tier=Tier.GPU,
                adapter=None,
                salt=None,
            )
        elif isinstance(event, kv_events.BlockRemoved):
            yield BlockRemoved(cast(Sequence[EngineHash], event.block_hashes), Tier.GPU)
        else:
            yield AllBlocksCleared()
