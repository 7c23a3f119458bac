"""What a placement costs those who come later, in seconds of prefill: room, work, and conversations torn apart.

Without it an idle fleet would fill one cache and evict while the others are empty, all who share a beginning would
follow it to one engine, and a decoding neighbour would be enough to send a conversation away from what is held of it.
"""

from collections.abc import Sequence
from math import inf

from routing.cost import Profile, Stake
from routing.fleet import Engine
from routing.room import Room
from routing.turns import Turns
from routing.types import BlockHash, EngineId

CROWDED = 2.5
"""What one token more than the emptiest cache holds costs, as a share of its prefill.

So a shared beginning is copied to the emptiest cache once the difference between the two is about one and a half times
its own length, and later where others would wait for it. Where the emptiest is full, too, nothing is gained by it: what
is pushed out costs the same everywhere.
"""
TOLERATED = 0.02
"""Share of a cache by which it may be fuller than the emptiest at no cost.

Where no conversation would be torn apart and no queue spreads the work, not more than counts anyway (`FULLER`): of a
large cache it is hundreds of short prompts, and all who share a beginning would go to one engine until so many came.
"""
FULLER = 2.0
"""Lengths of the prompt up to which it counts how much fuller a cache is than the emptiest.

So much is enough for all of the prompt to be copied there. More would only outweigh ever longer queues: everybody would
wait for an engine that came back empty. Of what is only on its way there no more counts than as many times what the
prompt itself would add.
"""
WORK = 0.3
"""Seconds that a second of prefill costs those who come later, on an idle fleet where nobody waits."""
STALLED = 0.1
"""Seconds that a second of prefill costs each request that decodes in the same steps: one between two tokens is felt
less than one before the first."""
QUEUED = 2.0
"""Requests of a mean queue that count as coming to an engine whose own is shorter, at most: others take their share."""
STAYING = 2.0
"""Decode steps that a conversation rather waits than moves: to wait for one under way, and for its own."""
LEFT_BEHIND = 0.75
"""What a token of a conversation that moves costs, as a share of its prefill: nobody asks for what stays behind."""
_TURNS = 65_536


Placement = tuple[int, int, int]
"""Of a request at one engine: its blocks; those of them that the engine does not hold; and the blocks of a conversation
that would be sent away from them.

A plain tuple, as one is made of every engine for every decision.
"""


class Stakes:
    """Judges placements by what they leave to others.

    room: what each engine's cache holds.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._turns = Turns(_TURNS)

    def continued(self, blocks: Sequence[BlockHash]) -> int:
        """How many leading blocks of this prompt are a whole earlier one that it alone goes on from; 0 for none."""
        return self._turns.continued(blocks)

    def of(
        self, engines: Sequence[Engine], profiles: Sequence[Profile], placements: Sequence[Placement], now: float
    ) -> Sequence[Stake]:
        """What is at stake if an engine gets a request, for each of the engines.

        engines: all that may get it, at least one. profiles: how fast they are. placements: what the request is there.

        A second of prefill is waited for by those who come while the engine's queue lasts: about as many as wait there
        now, or elsewhere, since they come to the shortest queue.
        """
        caches = self._room.occupancies([engine.id for engine in engines], now)
        queues, shares, settled = [], [], []
        for engine, (_, fresh, _) in zip(engines, caches, strict=True):
            load = engine.load
            queues.append(load.pending + load.others_waiting)
            whole = engine.capacity or inf
            kept = fresh * engine.namespace.block_size
            settled.append(kept / whole)
            shares.append((kept + load.pending_tokens) / whole)
        mean_queue = min(sum(queues) / len(queues), QUEUED)
        emptiest, least_settled = min(shares), min(settled)
        free = max(0.0, 1.0 - emptiest)
        goes_on = any(left for _, _, left in placements)
        stakes = []
        for engine, profile, cache, share, lasting, queue, (blocks, new_blocks, left) in zip(
            engines, profiles, caches, shares, settled, queues, placements, strict=True
        ):
            per_block = engine.namespace.block_size * profile.prefill_per_token
            moving = STAYING * profile.decode_base + LEFT_BEHIND * left * per_block if left else 0.0
            room, capacity = 0.0, engine.replica.capacity_blocks
            if capacity:
                held, _, wanted_at_end = cache
                pushed_out = new_blocks + held - capacity
                tolerated, enough = TOLERATED * capacity, FULLER * blocks
                if enough < tolerated and not goes_on and mean_queue < QUEUED:
                    tolerated = enough
                fuller = (share - emptiest) * capacity - tolerated
                # What prompts on their way will fill counts for the new blocks of this one. The next prompts even it
                # out, so it is no reason to compute again elsewhere what is held here.
                stays = (lasting - least_settled) * capacity - tolerated
                most = FULLER * new_blocks + (stays if stays > 0.0 else 0.0)
                if most < enough:
                    enough = most
                surplus = new_blocks + (fuller if fuller < enough else enough)
                lost = pushed_out * wanted_at_end if pushed_out > 0 else 0.0
                if surplus > 0:
                    copied = free * capacity
                    lost += CROWDED * (surplus if surplus < copied else copied)
                room = lost * per_block
            behind = WORK + STALLED * engine.load.running + (queue if queue > mean_queue else mean_queue)
            stakes.append((room, moving, behind))
        return stakes

    def record(self, engine: EngineId, blocks: Sequence[BlockHash], held: int, now: float) -> None:
        """A prompt of these blocks goes there, of which the engine holds the first `held`."""
        self._room.use(engine, blocks[:held], now)
        self._turns.record(blocks)
