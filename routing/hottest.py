"""Which beginnings of prompts are asked for most, with their tokens: what a new replica had better know."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from routing.types import BlockHash

_OFTEN = 3
"""times that a beginning has to come until its tokens are kept: a conversation's own comes back once a turn"""
_KEPT_TOKENS = 1_000_000
"""of all beginnings together; 4 bytes each"""


class Beginning(NamedTuple):
    """What several prompts began with."""

    model: str
    """as the requests named it"""
    salt: str | None
    """the cache salt that they had in common"""
    tokens: Sequence[int]


class _Entry:
    __slots__ = ("at", "beginning", "count")

    def __init__(self) -> None:
        self.at = 0.0
        self.count = 0.0
        self.beginning: Beginning | None = None


class Hottest:
    """Counts that fade.

    limit: beginnings remembered, > 0; the longest unasked is forgotten first.
    half_life: seconds after which a request counts half.
    """

    def __init__(self, limit: int, half_life: float) -> None:
        self._limit = limit
        self._half_life = half_life
        self._entries: OrderedDict[BlockHash, _Entry] = OrderedDict()
        self._tokens = 0

    def note(self, end: BlockHash, model: str, salt: str | None, tokens: Sequence[int], count: int, now: float) -> None:
        """A prompt began with the first `count` of these tokens, as another one had. end: the last block of those."""
        entry = self._entries.get(end)
        if entry is None:
            entry = self._entries[end] = _Entry()
            if len(self._entries) > self._limit:
                self._forget(self._entries.popitem(last=False)[1])
        self._entries.move_to_end(end)
        entry.count = self._faded(entry, now) + 1
        entry.at = now
        if entry.beginning is None and entry.count > _OFTEN - 1 and self._tokens + count <= _KEPT_TOKENS:
            entry.beginning = Beginning(model, salt, array("I", tokens[:count]))
            self._tokens += count

    def best(self, count: int, now: float) -> Sequence[Beginning]:
        """Up to so many, those first with which the most tokens were asked for of late."""
        found = [
            (self._faded(entry, now) * len(entry.beginning.tokens), entry.beginning)
            for entry in self._entries.values()
            if entry.beginning is not None
        ]
        return [beginning for _, beginning in sorted(found, key=lambda each: -each[0])[:count]]

    def _faded(self, entry: _Entry, now: float) -> float:
        return float(entry.count * 0.5 ** ((now - entry.at) / self._half_life))

    def _forget(self, entry: _Entry) -> None:
        if entry.beginning is not None:
            self._tokens -= len(entry.beginning.tokens)
