"""The prompts of one gateway that an engine has to prefill, in the order in which it takes them."""

from typing import NamedTuple


class Prefill(NamedTuple):
    """The work that one prompt is."""

    tokens: int
    pairs: int
    """of such a token and one that it looks back on"""


class Line:
    """First come, first served, as vLLM does: the first of the line is being prefilled.

    since: when the engine turned to it, seconds; of an empty line without meaning.
    """

    __slots__ = ("_joined", "_waiting", "since")

    def __init__(self) -> None:
        self.since = 0.0
        self._joined = 0
        self._waiting: dict[int, Prefill] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, prefill: Prefill, now: float) -> int:
        """A prompt goes there. Returns its place, by which it leaves."""
        if not self._waiting:
            self.since = now
        self._joined += 1
        self._waiting[self._joined] = prefill
        return self._joined

    def leave(self, place: int, now: float) -> None:
        """Its first token has come, or it will not be prefilled after all."""
        if place == next(iter(self._waiting)):
            self.since = now
        del self._waiting[place]

    @property
    def first(self) -> Prefill:
        """What is being prefilled. Raises StopIteration where nothing is."""
        return next(iter(self._waiting.values()))
