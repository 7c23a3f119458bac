"""A gateway without its sockets: what it knows, how it decides, what it has in flight."""

from collections.abc import Callable, Sequence
from random import Random

from loadtest.virtual.workload import Ask
from routing.blocks import block_hashes, root_hash
from routing.changes import Change
from routing.cost import Profile
from routing.decision import Decision, Prompt, RouteRequest
from routing.fit import SpeedFit, tells_speed
from routing.fleet import Fleet, Lease, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.history import RouteHistory
from routing.index import PrefixIndex
from routing.load import Report
from routing.policies import Policy, PrefixSource
from routing.pricing import Matches
from routing.reuse import ReuseChance
from routing.room import Room
from routing.router import Router
from routing.stakes import Stakes
from routing.types import BlockHash, EngineId, Namespace, ReplicaId

MODEL = "sim"
FRESH_LIFETIME = 2.0
"""seconds after its first token that a prompt counts as held without an event; the gateway's default"""
HISTORY_TOKENS = 320_000
HISTORY_BYTES = 536_870_912
HISTORY_LIFETIME = 3600.0
ROOM_LIFETIME = 600.0


class Door:
    """One gateway in front of the replicas 0 to `replicas` - 1, each of one rank.

    policy: makes its policy. capacity: blocks that each replica states.
    """

    def __init__(
        self,
        policy: Callable[[Random], Policy],
        profile: Profile,
        replicas: int,
        capacity: int,
        block_size: int,
        random: Random,
    ) -> None:
        self.policy = policy(random)
        self.index = PrefixIndex()
        self._fresh = FreshRoutes(FRESH_LIFETIME)
        self._history = RouteHistory(HISTORY_TOKENS // block_size, HISTORY_BYTES, HISTORY_LIFETIME)
        self._space = Namespace(MODEL, block_size)
        self._root = root_hash(b"", MODEL, block_size)
        self._fleet = Fleet()
        self._capacity = capacity
        self._room = Room(ReuseChance(), ROOM_LIFETIME)
        self._fit = SpeedFit(profile)
        self._router = Router(self._fleet, self._fresh, self._fit, Stakes(self._room))
        for number in range(replicas):
            self.join(number)

    def join(self, replica: int) -> None:
        """A replica is there, with an empty cache."""
        id = engine_id(replica).replica
        card = ModelCard(MODEL)
        size = self._space.block_size
        self._fleet.join(Replica(id, f"http://{id}", (card,), block_size=size, capacity_blocks=self._capacity))

    def leave(self, replica: int) -> None:
        """A replica is gone."""
        for engine in self._fleet.leave(engine_id(replica).replica):
            self.index.forget(engine)
            self._room.forget(engine)
            self._fresh.forget(engine)
            self._history.forget(engine)
            self._fit.forget(engine.replica)

    def decide(self, ask: Ask, now: float) -> tuple[Decision, Lease]:
        """Choose a replica, take a place in its load."""
        return self.route(len(ask.prompt), block_hashes(ask.prompt, self._space.block_size, self._root), now)

    def route(self, tokens: int, blocks: Sequence[BlockHash], now: float) -> tuple[Decision, Lease]:
        """The same for a prompt of `tokens` tokens with these full blocks."""
        prompt = Prompt(tokens, {self._space: blocks})
        request = RouteRequest(MODEL, (prompt,))
        decision = self._router.route(request, self._matches(prompt), self.policy, now)
        if self.policy.source is PrefixSource.HISTORY:
            self._history.record(decision.engine, blocks, now)
        engine = self._fleet.get(decision.engine)
        assert engine is not None
        return decision, Lease(engine.load, decision.prompt_tokens, decision.new_tokens, now)

    def began(self, decision: Decision, now: float) -> None:
        """The first token of a request has come."""
        self._router.began(decision, now)

    def answered(self, decision: Decision, cached: int, ttft: float) -> None:
        """A request ended: so many of its tokens were cached, and its first one came so many seconds after it."""
        if tells_speed(decision, cached):
            self._fit.observe(decision.engine, decision.prediction.ttft / decision.factor, ttft)

    def take_in(self, replica: int, changes: Sequence[Change], now: float) -> None:
        """Events of a replica have come."""
        id = engine_id(replica)
        if self._fleet.get(id) is None:
            return
        self.index.apply(id, changes)
        self._room.apply(id, changes, now)
        self._fresh.apply(id, changes)

    def observe(self, replica: int, report: Report) -> None:
        """A replica was asked how busy it is, and answered at once."""
        engine = self._fleet.get(engine_id(replica))
        if engine is not None:
            engine.load.observe(report, engine.load.mark())

    def _matches(self, prompt: Prompt) -> Matches:
        if self.policy.source is PrefixSource.NONE:
            return ()
        source = self.index if self.policy.source is PrefixSource.EVENTS else self._history
        return [source.match(prompt.chains[self._space])]


def engine_id(replica: int) -> EngineId:
    """The name of a replica's one engine."""
    return EngineId(ReplicaId(f"r{replica}:8000"), 0)


def number(engine: EngineId) -> int:
    """The replica's position."""
    return int(engine.replica.partition(":")[0].removeprefix("r"))
