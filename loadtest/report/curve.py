"""Miss-ratio curves with intervals: hits by distance, kept for stretches of the traffic."""

from collections.abc import Sequence
from random import Random

from loadtest.report.distances import Hits, step_of

_STRETCHES = 128
DRAWS = 400


class _Stretch:
    """Some requests in a row."""

    def __init__(self) -> None:
        self.requests = 0
        self.tokens = 0
        self.asked = 0
        self.unseen = 0.0
        self.by_step: dict[int, float] = {}

    def merge(self, other: "_Stretch") -> None:
        self.requests += other.requests
        self.tokens += other.tokens
        self.asked += other.asked
        self.unseen += other.unseen
        for step, hits in other.by_step.items():
            self.by_step[step] = self.by_step.get(step, 0.0) + hits


class Curve:
    """Share of prompt tokens that caches of any size serve. Memory is bounded: stretches are joined as they grow many.

    block_size: tokens of a block.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._stretches = [_Stretch()]
        self._length = 16

    def add(self, tokens: int, hits: Hits) -> None:
        """One request. tokens: of its prompt."""
        last = self._stretches[-1]
        if last.requests >= self._length:
            if len(self._stretches) >= _STRETCHES:
                self._join()
            last = _Stretch()
            self._stretches.append(last)
        last.requests += 1
        last.tokens += tokens
        last.asked += hits.asked
        # A sample that misses some of what was asked misses hot blocks, which any cache holds (SHARDS-adj).
        last.unseen += hits.unseen
        for step, count in hits.by_step.items():
            last.by_step[step] = last.by_step.get(step, 0.0) + count

    def hit_ratio(self, tokens: float) -> float:
        """With a cache of so many tokens."""
        return self._ratio([self._hits(stretch, tokens) for stretch in self._stretches], self._stretches)

    def interval(self, tokens: float) -> tuple[float, float]:
        """Where 95 % of the hit ratios of resampled stretches lie."""
        random = Random(0)
        hits = [self._hits(stretch, tokens) for stretch in self._stretches]
        numbers = range(len(hits))
        drawn = []
        for _ in range(DRAWS):
            chosen = random.choices(numbers, k=len(hits))
            drawn.append(self._ratio([hits[at] for at in chosen], [self._stretches[at] for at in chosen]))
        drawn.sort()
        cut = int(0.025 * DRAWS)
        return drawn[cut], drawn[-1 - cut]

    def distances(self) -> dict[int, float]:
        """Estimated hits by step of distance, in blocks."""
        whole = _Stretch()
        for stretch in self._stretches:
            whole.merge(stretch)
        return whole.by_step

    def _hits(self, stretch: _Stretch, tokens: float) -> float:
        blocks = tokens / self._block_size
        if blocks < 1:
            return 0.0
        last = step_of(blocks) if blocks != float("inf") else float("inf")
        return stretch.unseen + sum(hits for step, hits in stretch.by_step.items() if step <= last)

    def _ratio(self, hits: Sequence[float], stretches: Sequence[_Stretch]) -> float:
        tokens = sum(stretch.tokens for stretch in stretches)
        asked = sum(stretch.asked for stretch in stretches)
        return min(max(0.0, sum(hits)), asked) * self._block_size / tokens if tokens else 0.0

    def _join(self) -> None:
        """Neighbours become one."""
        joined = []
        for at in range(0, len(self._stretches), 2):
            pair = self._stretches[at]
            for other in self._stretches[at + 1 : at + 2]:
                pair.merge(other)
            joined.append(pair)
        self._stretches = joined
        self._length *= 2
