"""What a placement costs those who come later, in seconds of prefill: room, work, and conversations torn apart.

Without it an idle fleet would fill one cache and evict while the others are empty, all who share a beginning would
follow it to one engine, and a decoding neighbour would be enough to send a conversation away from what is held of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from routing.cost import Profile, Stake
from routing.fleet import Engine
from routing.room import Occupancy, Room
from routing.turns import Turns
from routing.types import BlockHash, EngineId

CROWDED = 2.0
"""What one token more than the emptiest cache holds costs, as a share of its prefill.

So a shared beginning is copied to the emptiest cache once the difference between the two is about two thirds of its own
length. Where the emptiest is full, too, nothing is gained by it: what is pushed out costs the same everywhere.
"""
TOLERATED = 0.02
"""Share of a cache by which it may be fuller than the emptiest at no cost."""
FULLER = 2.0
"""Lengths of the prompt up to which it counts how much fuller a cache is than the emptiest.

So much is enough for all of the prompt to be copied there. More would only outweigh ever longer queues: everybody would
wait for an engine that came back empty.
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


class Standing(NamedTuple):
    """How a fleet stands at the moment of a decision."""

    caches: Sequence[Occupancy]
    """of each engine, in their order"""
    shares: Sequence[float]
    """of each engine's cache, what is in fresh use or about to be, in their order"""
    emptiest: float
    """the least of them"""
    free: float
    """what is free of that cache, as a share: 0 where more is about to be in it than it takes"""
    waiting: float
    """requests that wait for their first token, for each engine, up to `QUEUED`"""


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

    def standing(self, engines: Sequence[Engine], now: float) -> Standing:
        """What all candidates are compared with. engines: at least one."""
        waiting = sum(engine.load.pending + engine.load.others_waiting for engine in engines) / len(engines)
        caches = [self._room.occupancy(engine.id, now) for engine in engines]
        shares = list(map(_share, engines, caches))
        emptiest = min(shares)
        return Standing(caches, shares, emptiest, max(0.0, 1.0 - emptiest), min(waiting, QUEUED))

    def of(
        self,
        engine: Engine,
        profile: Profile,
        blocks: int,
        new_blocks: int,
        left: int,
        cache: Occupancy,
        share: float,
        standing: Standing,
    ) -> Stake:
        """What is at stake if the engine gets a prompt.

        profile: how fast it is. blocks: the prompt's. new_blocks: those of them that it does not hold.
        left: blocks of a conversation that would be sent away from them.
        cache, share: the engine's of `standing`.

        A second of prefill is waited for by those who come while the engine's queue lasts: about as many as wait there
        now, or elsewhere, since they come to the shortest queue.
        """
        moving = room = 0.0
        if left:
            dead = LEFT_BEHIND * left * engine.namespace.block_size * profile.prefill_per_token
            moving = STAYING * profile.decode_base + dead
        capacity = engine.replica.capacity_blocks
        if capacity:
            held, _, wanted_at_end = cache
            pushed_out = new_blocks + held - capacity
            fuller = (share - standing.emptiest - TOLERATED) * capacity
            enough = FULLER * blocks
            surplus = new_blocks + (fuller if fuller < enough else enough)
            lost = pushed_out * wanted_at_end if pushed_out > 0 else 0.0
            if surplus > 0:
                free = standing.free * capacity
                lost += CROWDED * (surplus if surplus < free else free)
            room = lost * engine.namespace.block_size * profile.prefill_per_token
        load = engine.load
        waiting = load.pending + load.others_waiting
        behind = waiting if waiting > standing.waiting else standing.waiting
        return room, moving, WORK + STALLED * load.running + behind

    def record(self, engine: EngineId, blocks: Sequence[BlockHash], held: int, now: float) -> None:
        """A prompt of these blocks goes there, of which the engine holds the first `held`."""
        self._room.use(engine, blocks[:held], now)
        self._turns.record(blocks)


def _share(engine: Engine, cache: Occupancy) -> float:
    _, fresh, _ = cache
    capacity = engine.replica.capacity_blocks
    if not capacity:
        return 0.0
    coming = engine.load.pending_tokens / engine.namespace.block_size
    return (fresh + coming) / capacity
