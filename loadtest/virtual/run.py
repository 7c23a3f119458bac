"""Runs a workload through gateways on simulated replicas, in virtual time."""

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import NamedTuple

from loadtest.replica.engine import Step
from loadtest.replica.kv_events import KVEvent
from loadtest.replica.request import Request
from loadtest.virtual.door import Door, number
from loadtest.virtual.site import Site
from loadtest.virtual.workload import Answered, Ask, Workload
from routing.decision import Decision
from routing.fleet import Lease
from routing.load import Report


class _Sent(NamedTuple):
    ask: Ask
    door: Door
    decision: Decision
    lease: Lease


class Run:
    """A fleet, its gateways, and the time.

    sites: the replicas. doors: the gateways; requests go to them in turn. event_lag: seconds from an engine's step to
    the gateways' indexes. event_loss: share of messages that are lost, drawn from `random`, and replayed once the
    engine's next one shows the gap. report_interval: seconds between two looks of the gateways at the engines' load.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        doors: Sequence[Door],
        *,
        event_lag: float = 0.001,
        event_loss: float = 0.0,
        report_interval: float = 1.0,
        random: Random | None = None,
    ) -> None:
        self.now = 0.0
        self._sites = sites
        self._doors = doors
        self._event_lag = event_lag
        self._event_loss = event_loss
        self._random = random or Random(0)
        self._lost: dict[int, list[KVEvent]] = {}
        self._report_interval = report_interval
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._sent: dict[Request, _Sent] = {}
        self._first: dict[Request, float] = {}
        self._answered: list[Answered] = []
        self._asked = 0

    def play(self, workload: Workload) -> list[Answered]:
        """Ask everything and wait for all answers. Returns them in the order in which they ended. Once only."""
        self._workload = workload
        self._coming = iter(workload.start())
        self._expect()
        self.at(self._report_interval, self._report)
        while self._due:
            self.now, _, act = heapq.heappop(self._due)
            act()
        return self._answered

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Do something at a time."""
        heapq.heappush(self._due, (when, next(self._order), act))

    def kill(self, replica: int) -> None:
        """A replica dies: gateways see it at once, and what it was to answer is asked again."""
        site = self._sites[replica]
        site.restart()
        self._lost.pop(replica, None)
        for door in self._doors:
            door.leave(replica)
        for request in [request for request, sent in self._sent.items() if number(sent.decision.engine) == replica]:
            sent = self._sent.pop(request)
            self._first.pop(request, None)
            sent.lease.release(self.now)
            self._arrive(sent.ask)

    def join(self, replica: int) -> None:
        """A replica that died is back, its cache empty."""
        for door in self._doors:
            door.join(replica)

    def _expect(self) -> None:
        """Have the next one come that waits for nobody. One at a time: a long workload need not be in memory."""
        ask = next(self._coming, None)
        if ask is not None:
            self.at(ask.at, partial(self._come, ask))

    def _come(self, ask: Ask) -> None:
        self._expect()
        self._arrive(ask)

    def _arrive(self, ask: Ask) -> None:
        door = self._doors[self._asked % len(self._doors)]
        self._asked += 1
        decision, lease = door.decide(ask, self.now)
        site = self._sites[number(decision.engine)]
        request = Request(str(self._asked), ask.prompt, ask.output, site.block_size)
        self._sent[request] = _Sent(ask, door, decision, lease)
        site.engine.add(request)
        if not site.busy:
            self._step(site)

    def _step(self, site: Site) -> None:
        step = site.engine.start_step()
        site.busy = step is not None
        if step is not None:
            self.at(self.now + step.seconds, partial(self._finish, site, site.lives, step))

    def _finish(self, site: Site, life: int, step: Step) -> None:
        if life != site.lives:
            return
        outcome = site.engine.finish_step(step)
        if outcome.events:
            self.at(self.now + self._event_lag, partial(self._tell, site, life, outcome.events))
        ended = []
        for request, _ in outcome.sampled:
            if request not in self._first:
                self._first[request] = self.now
                _, door, decision, lease = self._sent[request]
                lease.first_token(self.now)
                door.began(decision, self.now)
            if request.finished:
                ended.append(self._end(request))
        self._step(site)
        for answered in ended:
            for ask in self._workload.follow(answered, self.now):
                self.at(ask.at, partial(self._arrive, ask))

    def _end(self, request: Request) -> Answered:
        ask, door, decision, lease = self._sent.pop(request)
        lease.release(self.now)
        ttft = self._first.pop(request) - ask.at
        door.answered(decision, request.cached or 0, ttft)
        answered = Answered(
            ask,
            number(decision.engine),
            ttft,
            self.now - ask.at,
            request.cached or 0,
            decision.cached_tokens,
            decision.prediction.ttft,
        )
        self._answered.append(answered)
        return answered

    def _tell(self, site: Site, life: int, events: Sequence[KVEvent]) -> None:
        if life != site.lives:
            return
        replica = self._sites.index(site)
        known = [*self._lost.pop(replica, ()), *events]
        if self._random.random() < self._event_loss:
            self._lost[replica] = known
            return
        changes = site.changes(known)
        for door in self._doors:
            door.take_in(replica, changes, self.now)

    def _report(self) -> None:
        for replica, site in enumerate(self._sites):
            report = Report(site.engine.running, site.engine.waiting, site.engine.cache.pool.usage)
            for door in self._doors:
                door.observe(replica, report)
        if self._due:
            self.at(self.now + self._report_interval, self._report)
