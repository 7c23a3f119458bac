"""The last decisions and what came of them, for whoever asks why a request went where it went."""

from collections import deque
from collections.abc import Sequence
from heapq import nsmallest
from itertools import islice

import msgspec

from gateway.log_line import LogLine, is_of, read
from gateway.relay.record import Record
from routing.decision import Candidate

CANDIDATES = 32_768
"""that the records of a ring have in all; some 16 MB"""
_LISTED = 1200
"""records that are kept because somebody saw them listed: a minute's worth of what the page shows"""
_BEST = 12
"""candidates that are kept of those"""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a record: its line, and what the line leaves out."""

    line: bytes
    at: float
    """when it ended, seconds since the epoch"""
    prompt_tokens: int
    """as the gateway counted them; 0 where it did not"""
    among: int
    """candidates that there were; only the best of them may have been left"""
    candidates: Sequence[Candidate]

    def read(self) -> tuple[LogLine, Candidate]:
        """What the line says, and the candidate that was chosen."""
        line = read(self.line)
        return line, next(one for one in self.candidates if one.engine == (line.replica, line.engine))


class DecisionRing:
    """The last `size` records, in order, or as many of them as have `CANDIDATES` in all."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._records: deque[Kept] = deque()
        self._listed: dict[str, Kept] = {}
        self._candidates = 0
        self._added = 0

    @property
    def added(self) -> int:
        """Records taken in since the start."""
        return self._added

    def add(self, record: Record, line: bytes) -> None:
        """Take in a request that is over; the oldest makes room."""
        decision, records = record.decision, self._records
        self._candidates += record.among
        while records and (len(records) >= self._size or self._candidates > CANDIDATES):
            self._candidates -= records.popleft().among
        records.append(Kept(line, record.at, decision.prompt_tokens, record.among, decision.candidates))
        self._added += 1

    def recent(self, limit: int) -> Sequence[Kept]:
        """The last ones, newest first."""
        return list(islice(reversed(self._records), limit))

    def keep(self, kept: Kept) -> Kept:
        """Somebody sees it listed and may ask for it when it has long made room. Returns what is kept of it then."""
        line, chosen = kept.read()
        listed = self._listed.get(line.id)
        if listed is None or listed.line != kept.line:
            listed = self._listed[line.id] = _with_the_best(kept, chosen)
            if len(self._listed) > _LISTED:
                del self._listed[next(iter(self._listed))]
        return listed

    def get(self, id: str) -> Kept | None:
        """What is kept of a request, the last one of this id."""
        return next((kept for kept in reversed(self._records) if is_of(id, kept.line)), None) or self._listed.get(id)


def _with_the_best(kept: Kept, chosen: Candidate) -> Kept:
    if kept.among <= _BEST:
        return kept
    best = nsmallest(_BEST, kept.candidates, key=lambda candidate: candidate.prediction.cost)
    return msgspec.structs.replace(kept, candidates=[*best, *([] if chosen in best else [chosen])])
