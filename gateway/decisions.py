"""The last decisions and what came of them, for whoever asks why a request went where it went."""

from collections import deque
from collections.abc import Sequence
from heapq import nsmallest
from itertools import islice

import msgspec

from gateway.relay.record import Ended, Record

CANDIDATES = 32_768
"""that the records of a ring have in all; some 16 MB"""
_LISTED = 1200
"""records that are kept because somebody saw them listed: a minute's worth of what the page shows"""
_BEST = 12
"""candidates that are kept of those"""


class DecisionRing:
    """The last `size` records, in order and by request id, or as many of them as have `CANDIDATES` in all.

    Of one id the last record is found.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._records: deque[Record] = deque()
        self._by_id: dict[str, Record] = {}
        self._kept: dict[str, Record] = {}
        self._candidates = 0
        self._added = 0

    @property
    def added(self) -> int:
        """Records taken in since the start."""
        return self._added

    def add(self, ended: Ended) -> None:
        """Take in a request that is over; the oldest makes room."""
        record = ended.record
        records = self._records
        self._candidates += record.among
        while records and (len(records) >= self._size or self._candidates > CANDIDATES):
            oldest = records.popleft()
            self._candidates -= oldest.among
            if self._by_id.get(oldest.id) is oldest:
                del self._by_id[oldest.id]
        records.append(record)
        self._by_id[record.id] = record
        self._added += 1

    def recent(self, limit: int) -> Sequence[Record]:
        """The last ones, newest first."""
        return list(islice(reversed(self._records), limit))

    def keep(self, record: Record) -> Record:
        """Somebody sees it listed and may ask for it when it has long made room. Returns what is kept of it."""
        kept = self._kept.get(record.id)
        if kept is None or kept.at != record.at:
            kept = self._kept[record.id] = _with_the_best(record)
            if len(self._kept) > _LISTED:
                del self._kept[next(iter(self._kept))]
        return kept

    def get(self, id: str) -> Record | None:
        """The record of a request, while it is held."""
        return self._by_id.get(id) or self._kept.get(id)


def _with_the_best(record: Record) -> Record:
    decision = record.decision
    if record.among <= _BEST:
        return record
    best = nsmallest(_BEST, decision.candidates, key=lambda candidate: candidate.prediction.cost)
    chosen = [candidate for candidate in decision.candidates if candidate.engine == decision.engine]
    kept = [*best, *(one for one in chosen if one not in best)]
    return msgspec.structs.replace(record, decision=decision._replace(candidates=kept))
