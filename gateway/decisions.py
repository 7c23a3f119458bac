"""The last decisions and what came of them, for whoever asks why a request went where it went."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from gateway.relay.account import Ended
from gateway.relay.usage import Usage
from routing.decision import Decision


class Record(msgspec.Struct, frozen=True):
    """One request that is over. Holds nothing of its text or tokens."""

    id: str
    at: float
    """when it ended, seconds since the epoch"""
    path: str
    model: str
    decision: Decision
    status: int
    how: str
    """the metric's `outcome`"""
    usage: Usage | None
    """what the engine counted"""
    ttft: float | None
    duration: float


CANDIDATES = 32_768
"""that the records of a ring have in all; some 16 MB"""


class DecisionRing:
    """The last `size` records, in order and by request id, or as many of them as have `CANDIDATES` in all.

    Of one id the last record is found.
    """

    def __init__(self, size: int, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._size = size
        self._records: deque[Record] = deque()
        self._by_id: dict[str, Record] = {}
        self._candidates = 0
        self._added = 0

    @property
    def added(self) -> int:
        """Records taken in since the start."""
        return self._added

    def add(self, ended: Ended) -> None:
        """Take in a request that is over; the oldest makes room."""
        inbound, outcome = ended.inbound, ended.outcome
        record = Record(
            inbound.id, self._clock(), inbound.client.path, inbound.model, ended.decision,
            outcome.status, ended.how, outcome.usage, ended.ttft, ended.duration,
        )  # fmt: skip
        records = self._records
        self._candidates += len(record.decision.candidates)
        while records and (len(records) >= self._size or self._candidates > CANDIDATES):
            oldest = records.popleft()
            self._candidates -= len(oldest.decision.candidates)
            if self._by_id.get(oldest.id) is oldest:
                del self._by_id[oldest.id]
        records.append(record)
        self._by_id[record.id] = record
        self._added += 1

    def recent(self, limit: int) -> Sequence[Record]:
        """The last ones, newest first."""
        return list(islice(reversed(self._records), limit))

    def get(self, id: str) -> Record | None:
        """The record of a request, while it is held."""
        return self._by_id.get(id)
