"""How far a stream of numbered messages is booked."""

from gateway.kv.actions import Action, Apply, Clear, FeedCounters
from gateway.kv.position import Position, proof
from gateway.kv.wire import WireError, decode


class Place:
    """The number that comes next, and the message before it.

    counters: kept up to date.
    first: number of the first message; None: whichever comes.
    kept: the message that another process has applied last, and everything before it; `first` does not count then.
    """

    def __init__(self, counters: FeedCounters, first: int | None, kept: Position | None = None) -> None:
        self.next = first
        """number of the next message to apply; None: whichever comes"""
        self.last_proof: bytes | None = None
        """of the message before `next`, if it was applied"""
        self._counters = counters
        self._blank = True
        if kept is not None:
            self.next, self.last_proof, self._blank = kept.seq + 1, kept.proof, False
            counters.last_seq, counters.last_ts = kept.seq, kept.ts

    @property
    def position(self) -> Position | None:
        """The last message applied; None if what comes next is not known."""
        seq, proved = self._counters.last_seq, self.last_proof
        return None if seq is None or proved is None else Position(seq, proved, self._counters.last_ts or 0.0)

    def apply(self, seq: int, payload: bytes, now: float, actions: list[Action]) -> None:
        """Move behind this message and have it booked. One that can't be read costs all that is booked."""
        self.next, self.last_proof = seq + 1, proof(payload)
        self._counters.last_seq = seq
        self._counters.applied_at = self._counters.confirmed_at = now
        try:
            batch = decode(payload)
        except WireError:
            self._counters.unreadable += 1
            self.clear(actions)
            return
        self._blank = False
        self._counters.last_ts = batch.ts
        actions.append(Apply(batch))

    def clear(self, actions: list[Action]) -> None:
        """Have what is booked forgotten, if anything is."""
        if not self._blank:
            self._blank = True
            self._counters.clears += 1
            actions.append(Clear())

    def lose(self, actions: list[Action]) -> None:
        """Clear, and go on with whichever message comes."""
        self.clear(actions)
        self.next = self.last_proof = None
        self._counters.last_seq = self._counters.last_ts = None

    def is_before(self, payload: bytes) -> bool:
        """Whether the last applied message was made before this one, by the engine's clock."""
        try:
            return decode(payload).ts > (self._counters.last_ts or 0.0)
        except WireError:
            return False
