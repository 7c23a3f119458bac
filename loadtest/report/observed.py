"""One pass over the traffic, in bounded memory."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from loadtest.report.curve import Curve
from loadtest.report.distances import StackDistances, value_of
from loadtest.report.happened import Happened
from loadtest.traces.trace import TraceRequest, lookup

RECENT = 6_000
"""requests that are kept whole, the last ones, to forecast with"""
LIMIT = 1 << 18
"""blocks that are kept; traffic with more of them is sampled"""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the traffic is like."""

    requests: int
    seconds: float
    """from the first arrival to the last"""
    prompt_lengths: Counter[int]
    """requests by tokens"""
    output_tokens: int
    curve: Curve
    distances: StackDistances
    recent: deque[TraceRequest]
    block_size: int
    """tokens"""
    happened: Happened

    @property
    def prompt_tokens(self) -> int:
        return sum(tokens * count for tokens, count in self.prompt_lengths.items())

    @property
    def shared_prefix_share(self) -> float:
        """Share of prompt tokens in blocks that some other request begins with, too; 0-1."""
        return min(1.0, self.distances.shared_blocks * self.block_size / max(1, self.prompt_tokens))

    def distances_tokens(self) -> dict[float, float]:
        """Estimated reuses by the tokens of other blocks that were used since."""
        return {value_of(step) * self.block_size: hits for step, hits in self.curve.distances().items()}

    def prompt_percentile(self, percent: float) -> int:
        """Tokens. percent: 0-100."""
        left = self.requests * percent / 100
        for tokens in sorted(self.prompt_lengths):
            left -= self.prompt_lengths[tokens]
            if left <= 0:
                return tokens
        return max(self.prompt_lengths, default=0)


def observe(requests: Iterable[TraceRequest], block_size: int, happened: Happened, limit: int = LIMIT) -> Observed:
    """requests: in order of arrival. happened: takes in what came of them. limit: blocks kept at most."""
    curve, distances = Curve(block_size), StackDistances(limit)
    lengths: Counter[int] = Counter()
    recent: deque[TraceRequest] = deque(maxlen=RECENT)
    output = 0
    first = last = None
    for request in requests:
        first = request.arrival if first is None else first
        last = request.arrival
        asked = lookup(request, block_size)
        curve.add(asked.tokens, distances.ask(asked.wanted, asked.kept, request.arrival))
        lengths[request.prompt_tokens] += 1
        output += request.output_tokens
        happened.add(request)
        recent.append(request)
    seconds = (last or 0.0) - (first or 0.0)
    return Observed(lengths.total(), seconds, lengths, output, curve, distances, recent, block_size, happened)
