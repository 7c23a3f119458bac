"""How likely a block that nobody has asked for in a while is asked for again."""

from itertools import accumulate

_OLDEST = 20
"""octaves: 2**20 s are twelve days"""
_YOUNGEST = 4
"""everything under 2**-4 s is one bucket"""
_LAST = _OLDEST + _YOUNGEST
_SHORTEST = 2**_YOUNGEST
_REMEMBERED = 2_000_000
"""blocks after which what was seen begins to count half"""


class ReuseChance:
    """Learned from how long blocks had been idle when they were used again, and when they were evicted.

    For an age a: of the blocks that came to be a / 2 old, the share that was used again before a. Blocks that are about
    to be evicted at that age are taken to be no better than those that were kept up to it. Where few came to be so old,
    no more is expected than of younger ones, or a cache older than any before would seem full of wanted blocks.

    prior: the chance taken while nothing is known, 0 to 1. weight: blocks that what is taken for granted is worth.
    """

    def __init__(self, prior: float = 0.5, weight: float = 2000.0) -> None:
        self._prior = prior
        self._weight = weight
        self._used = [0.0] * (_LAST + 1)
        self._ended = [0.0] * (_LAST + 1)
        self._seen = 0.0
        self._chances: list[float] | None = None
        """by octave, until something else is seen: a decision asks for every engine's"""

    def used(self, age: float, blocks: int) -> None:
        """So many blocks were used again after being idle for `age` seconds."""
        self._used[_octave(age)] += blocks
        self._count(age, blocks)

    def evicted(self, age: float, blocks: int) -> None:
        """So many blocks were evicted after being idle for `age` seconds."""
        self._count(age, blocks)

    def chance(self, age: float) -> float:
        """How likely a block idle for `age` seconds is used again, 0 to 1."""
        if self._chances is None:
            at_risk = list(accumulate(reversed(self._ended)))[::-1]
            self._chances = []
            chance = self._prior
            for used, count in zip(self._used, at_risk, strict=True):
                expected = min(chance, self._prior)
                chance = (used + expected * self._weight) / (count + self._weight)
                self._chances.append(chance)
        return self._chances[_octave(age)]

    def _count(self, age: float, blocks: int) -> None:
        self._chances = None
        self._ended[_octave(age)] += blocks
        self._seen += blocks
        if self._seen > _REMEMBERED:
            self._used = [count / 2 for count in self._used]
            self._ended = [count / 2 for count in self._ended]
            self._seen /= 2


def _octave(age: float) -> int:
    octave = int(age * _SHORTEST).bit_length() if age > 0.0 else 0
    return octave if octave < _LAST else _LAST
