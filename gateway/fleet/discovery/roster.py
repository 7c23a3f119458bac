"""Who is watched: starts and ends the watch of each replica as it comes and goes."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Protocol

from gateway.background import Background
from gateway.config import ReplicaConfig
from gateway.fleet.discovery.reconcile import Identity, identity, reconcile
from gateway.fleet.probe import replica_id
from routing.types import ReplicaId


class Watching(Protocol):
    """What looks after one replica. It is to have let go of the replica when `run` ends."""

    def change(self, replica: ReplicaConfig) -> None:
        """Take in what is said otherwise of the same replica."""
        ...

    async def run(self) -> None:
        """Look after it until cancelled."""
        ...


class Roster:
    """One watch for each replica that is wanted.

    make: the watch of a replica; introduce: told what is said of each before it is watched, and whenever that changes;
    drain: told who gets no new requests, and who does again; gone: told of each that is wanted no more, after its watch
    has ended.
    """

    def __init__(
        self,
        make: Callable[[ReplicaConfig], Watching],
        background: Background,
        introduce: Callable[[ReplicaConfig], None] = lambda replica: None,
        drain: Callable[[ReplicaId, bool], None] = lambda replica, draining: None,
        gone: Callable[[Identity], None] = lambda who: None,
    ) -> None:
        self._make = make
        self._background = background
        self._introduce = introduce
        self._drain = drain
        self._gone = gone
        self._known: dict[Identity, ReplicaConfig] = {}
        self._watches: dict[Identity, tuple[Watching, asyncio.Task[None]]] = {}
        self._ending: dict[str, set[asyncio.Task[None]]] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def watches(self, url: str) -> bool:
        """Whether anybody is watched at this address."""
        return any(who.url == url for who in self._watches)

    def want(self, observed: Sequence[ReplicaConfig]) -> None:
        """Watch these and no others."""
        changes = reconcile(self._known, observed)
        for who in changes.leave:
            self._end(who)
        for replica in changes.change:
            who = identity(replica)
            if replica.draining != self._known[who].draining:  # else what an operator asked for otherwise stays
                self._drain(replica_id(who.url), replica.draining)
            self._known[who] = replica
            self._introduce(replica)
            self._watches[who][0].change(replica)
        for replica in changes.join:
            who = identity(replica)
            self._known[who] = replica
            if replica.draining:
                self._drain(replica_id(who.url), True)
            self._introduce(replica)
            watch = self._make(replica)
            run = partial(_after, self._ending.get(who.url, ()), watch)
            self._watches[who] = watch, self._background.keep("watch", run)

    def close(self) -> None:
        """Watch nobody."""
        for who in list(self._known):
            self._end(who)

    def _end(self, who: Identity) -> None:
        if self._known.pop(who).draining:
            self._drain(replica_id(who.url), False)
        _, task = self._watches.pop(who)
        self._ending.setdefault(who.url, set()).add(task)
        task.add_done_callback(lambda task: self._ended(who, task))
        task.cancel()

    def _ended(self, who: Identity, task: asyncio.Task[None]) -> None:
        ending = self._ending[who.url]
        ending.discard(task)
        if not ending:
            del self._ending[who.url]
        self._gone(who)


async def _after(ending: Collection[asyncio.Task[None]], watch: Watching) -> None:
    """An address has one watch at a time: who had it before lets go of it before this one takes it."""
    if ending:
        await asyncio.wait(list(ending))
    await watch.run()
