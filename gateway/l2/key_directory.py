"""What LMCache's servers report of their stores and deletes: which chunk lies where, without asking a file system.

The servers speak as they do to LMCache's own coordinator (LMCache 0.5.6, `v1/mp_coordinator`). There is no snapshot:
what was stored before is not known until it is stored or moved again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from gateway.l2.store import Progress


class Taken(StrEnum):
    """What became of a batch."""

    APPLIED = "applied"
    DUPLICATE = "duplicates"
    STALE = "stale"


class Batch(NamedTuple):
    """Changes of one kind that one server reports."""

    instance: str
    incarnation: int
    """how often the server was restarted: a higher one makes what a lower one reported stale"""
    seq: int
    """from 1 in each incarnation"""
    kind: str
    """`store` or `delete`; others change nothing"""
    tier: str
    """`l1` or `l2`"""
    shared: bool
    """whether the place is one for all servers"""
    names: Sequence[str]
    """of chunks, as `names.Server` names their files"""


@dataclass(slots=True)
class Instance:
    """One of LMCache's servers."""

    address: str
    """host and port of its HTTP server"""
    heard: float
    """when it last said anything, in seconds of the directory's clock"""
    incarnation: int = -1
    seq: int = 0
    own: Counter[str] = field(default_factory=Counter)
    """chunks in its memory, or on a disk of its own: in how many places"""
    stored: set[str] = field(default_factory=set)
    """chunks that it put into shared storage"""


class KeyDirectory:
    """Owned by the event loop; look-ups in threads only ask sets for members."""

    def __init__(self, clock: Callable[[], float], silence: float = 15.0) -> None:
        """clock: seconds, monotonic. silence: seconds without a heartbeat after which a server is gone."""
        self._clock = clock
        self._silence = silence
        self._instances: dict[str, Instance] = {}
        self._shared: set[str] = set()
        self.gaps = 0
        """batches that were missed"""

    def register(self, instance: str, address: str) -> bool:
        """A server is there. Returns whether it was known."""
        known = self._instances.get(instance)
        if known is None:
            self._instances[instance] = Instance(address, self._clock())
        else:
            known.address, known.heard = address, self._clock()
        return known is not None

    def heartbeat(self, instance: str) -> bool:
        """A server is still there. Returns False for one that must register first."""
        self._expire()
        known = self._instances.get(instance)
        if known is not None:
            known.heard = self._clock()
        return known is not None

    def leave(self, instance: str) -> None:
        """A server is gone, and its memory with it; what it put into shared storage stays."""
        self._instances.pop(instance, None)

    def apply(self, batch: Batch) -> Taken:
        """Take in a batch.

        After a gap nothing that this server reported counts any more, since deletes may be missing: knowing less is
        slow, knowing wrong is harmful. A restart empties its memory only.
        """
        instance = self._instances.setdefault(batch.instance, Instance("", self._clock()))
        instance.heard = self._clock()
        if batch.incarnation < instance.incarnation:
            return Taken.STALE
        if batch.incarnation > instance.incarnation:
            instance.own.clear()
            instance.incarnation, instance.seq = batch.incarnation, batch.seq - 1
        if batch.seq <= instance.seq:
            return Taken.DUPLICATE
        if batch.seq != instance.seq + 1:
            self.gaps += batch.seq - instance.seq - 1
            instance.own.clear()
            self._shared -= instance.stored
            instance.stored.clear()
        instance.seq = batch.seq
        if batch.tier == "l2" and batch.shared:
            self._change_shared(instance, batch)
        elif batch.kind == "store":
            instance.own.update(batch.names)
        elif batch.kind == "delete":
            instance.own.subtract(name for name in batch.names if name in instance.own)
            instance.own = +instance.own
        return Taken.APPLIED

    def leading(self, chunks: Sequence[Sequence[str]], progress: Progress) -> int:
        """See `Store`: what lies in shared storage."""
        shared = self._shared
        return _run(chunks, lambda name: name in shared, progress)

    def held_by(self, address: str, chunks: Sequence[Sequence[str]]) -> int:
        """How many chunks from the first the server at this address has, in its own places or the shared one."""
        for instance in list(self._instances.values()):
            if instance.address == address:
                own = instance.own
                return _run(chunks, lambda name: name in own, Progress())  # noqa: B023
        return 0

    def check(self) -> float:
        """See `Store`: nothing is asked of a place."""
        return 0.0

    def read(self) -> None:
        """See `Store`: nothing can be read."""

    def forget(self) -> None:
        """See `Store`: what is reported is not remembered by age."""

    def close(self) -> None:
        """See `Store`."""

    def _change_shared(self, instance: Instance, batch: Batch) -> None:
        if batch.kind == "store":
            self._shared.update(batch.names)
            instance.stored.update(batch.names)
        elif batch.kind == "delete":
            self._shared.difference_update(batch.names)
            instance.stored.difference_update(batch.names)

    def _expire(self) -> None:
        now = self._clock()
        for id in [id for id, instance in self._instances.items() if now - instance.heard > self._silence]:
            del self._instances[id]


def _run(chunks: Iterable[Sequence[str]], has: Callable[[str], bool], progress: Progress) -> int:
    for files in chunks:
        if not all(map(has, files)):
            break
        progress.chunks += 1
    return progress.chunks
