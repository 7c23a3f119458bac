"""Which members of the fleet get no requests for now, and why."""

from collections.abc import Iterator, Set
from typing import NamedTuple

from routing.breaker import Breaker, BreakerRules, BreakerState, Fault
from routing.fleet import Fleet
from routing.types import ReplicaId

_NOBODY: frozenset[ReplicaId] = frozenset()
_LEAST_SHARE = 0.1
"""Of its requests that a replica gets when it has just joined."""
_BUSY = 1.0
"""seconds for which one that takes nothing is asked last"""


class Out(NamedTuple):
    """Who is passed over."""

    always: Set[ReplicaId]
    """takes nothing now"""
    rather: Set[ReplicaId]
    """the same, those that took nothing just now, and those that have just joined and should not get all they could"""


_ALL_IN = Out(_NOBODY, _NOBODY)


class Health:
    """What is known of each replica's health beyond its being a member. Times are seconds of any one clock.

    slow_start: seconds over which a replica that joins a running fleet gets its full share.
    """

    def __init__(self, fleet: Fleet, rules: BreakerRules, slow_start: float) -> None:
        self._fleet = fleet
        self._rules = rules
        self._slow_start = slow_start
        self._breakers: dict[ReplicaId, Breaker] = {}
        self._asleep: set[ReplicaId] = set()
        self._draining: set[ReplicaId] = set()
        self._joined: dict[ReplicaId, float] = {}
        self._fresh: dict[ReplicaId, float] = {}
        self._busy: dict[ReplicaId, float] = {}

    # Whom to pass over

    def out(self, now: float, chance: float) -> Out:
        """Who is passed over. chance: at random in [0, 1), another one for each request."""
        if not (self._breakers or self._asleep or self._draining or self._fresh or self._busy):
            return _ALL_IN
        always = {replica for replica, breaker in self._breakers.items() if not breaker.admits(now)}
        always |= self._asleep
        always |= self._draining
        rather = always | {replica for replica in list(self._fresh) if chance >= self._share(replica, now)}
        self._busy = {replica: since for replica, since in self._busy.items() if now - since < _BUSY}
        return Out(always, rather | self._busy.keys())

    def rests(self, replica: ReplicaId, now: float) -> bool:
        """Whether even what only this replica can do is not to be sent there."""
        breaker = self._breakers.get(replica)
        return replica in self._asleep or (breaker is not None and not breaker.admits(now))

    def state(self, replica: ReplicaId, now: float) -> str:
        """In one word: draining, asleep, open, half_open, fresh or ready."""
        if replica in self._draining:
            return "draining"
        if replica in self._asleep:
            return "asleep"
        breaker = self._breakers.get(replica)
        if breaker is not None and breaker.state(now) is not BreakerState.CLOSED:
            return breaker.state(now).value
        return "fresh" if self._share(replica, now) < 1.0 else "ready"

    # What becomes of requests

    def begin(self, replica: ReplicaId) -> bool:
        """A request goes there. Returns whether it is the trial of one that was left alone."""
        breaker = self._breakers.get(replica)
        return breaker is not None and breaker.begin()

    def end_trial(self, replica: ReplicaId) -> None:
        """A trial is over, however."""
        breaker = self._breakers.get(replica)
        if breaker is not None:
            breaker.end_trial()

    def answer(self, replica: ReplicaId, *, trial: bool) -> bool:
        """The head of a good answer has come. Returns whether that ends the replica's rest."""
        breaker = self._breakers.get(replica)
        return breaker is not None and breaker.answer(trial=trial)

    def succeed(self, replica: ReplicaId) -> None:
        """A request was answered well to its end."""
        breaker = self._breakers.get(replica)
        if breaker is not None:
            breaker.succeed()
            if breaker.clean:
                del self._breakers[replica]

    def busy(self, replica: ReplicaId, now: float) -> None:
        """It takes nothing now (503). To ask it again for each request would use up what may be sent a second time."""
        self._busy[replica] = now

    def fail(self, replica: ReplicaId, fault: Fault, request: int, now: float, *, trial: bool = False) -> bool:
        """A request failed there; for the arguments see `Breaker.fail`. Returns whether it is left alone from now on.

        A replica is left alone only while another one does better with the same models. So the last one never is, nor
        are all of them for requests that fail everywhere.
        """
        if not self._is_member(replica):
            return False
        breaker = self._breakers.setdefault(replica, Breaker(self._rules))
        return breaker.fail(fault, request, now, trial=trial, spare=not self._another_does_better(replica))

    # What probes and operators say

    def joined(self, replica: ReplicaId, now: float) -> None:
        """The replica is a member. If it was none before it starts slowly, where others have been for a while."""
        if replica in self._joined:
            return
        others = [at for other, at in self._joined.items() if other != replica and self._is_member(other)]
        if self._slow_start > 0 and others and now - min(others) >= self._slow_start:
            self._fresh[replica] = now
        self._joined[replica] = now

    def left(self, replica: ReplicaId) -> None:
        """The replica is no member any more. That it is draining stays true."""
        self._breakers.pop(replica, None)
        self._asleep.discard(replica)
        self._joined.pop(replica, None)
        self._fresh.pop(replica, None)
        self._busy.pop(replica, None)

    def reachable(self, replica: ReplicaId, now: float) -> None:
        """A probe was answered."""
        breaker = self._breakers.get(replica)
        if breaker is not None:
            breaker.reachable(now)

    def sleeps(self, replica: ReplicaId, asleep: bool) -> bool:
        """Its engines sleep or are paused, or no longer. Returns whether that is new."""
        if asleep == (replica in self._asleep):
            return False
        (self._asleep.add if asleep else self._asleep.discard)(replica)
        return True

    def drain(self, replica: ReplicaId, draining: bool) -> None:
        """An operator wants no new requests there, or wants them again. Holds for one that is to join, too."""
        (self._draining.add if draining else self._draining.discard)(replica)

    def states(self, now: float) -> Iterator[tuple[ReplicaId, str]]:
        """Each member and its state."""
        for replica in sorted({engine.id.replica for engine in self._fleet}):
            yield replica, self.state(replica, now)

    def _share(self, replica: ReplicaId, now: float) -> float:
        since = self._fresh.get(replica)
        if since is None:
            return 1.0
        share = (now - since) / self._slow_start
        if share >= 1.0:
            del self._fresh[replica]
        return max(_LEAST_SHARE, share)

    def _is_member(self, replica: ReplicaId) -> bool:
        return any(engine.id.replica == replica for engine in self._fleet)

    def _another_does_better(self, replica: ReplicaId) -> bool:
        models = {card.id for engine in self._fleet if engine.id.replica == replica for card in engine.replica.cards}
        return any(
            engine.id.replica != replica
            and models.intersection(card.id for card in engine.replica.cards)
            and self._does_well(engine.id.replica)
            for engine in self._fleet
        )

    def _does_well(self, replica: ReplicaId) -> bool:
        breaker = self._breakers.get(replica)
        out = replica in self._asleep or replica in self._draining
        return not out and (breaker is None or not breaker.failing)
