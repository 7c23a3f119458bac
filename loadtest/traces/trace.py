"""A recorded or generated workload: what was asked when, with prompts as chains of block ids."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from random import Random
from typing import overload

from loadtest.bounds import Lookup


class TraceError(Exception):
    """A file is not a trace of this kind. The message names file and line."""


class Runs(Sequence[int]):
    """Block ids as runs of consecutive numbers: long prompts that share nearly everything take little memory."""

    __slots__ = ("_length", "_runs")

    def __init__(self, runs: Sequence[range]) -> None:
        self._runs = runs
        self._length = sum(map(len, runs))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._runs)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> "Runs": ...
    def __getitem__(self, index: int | slice) -> "int | Runs":
        """A slice must begin at the start and have no step."""
        if isinstance(index, slice):
            assert index.start in (None, 0)
            assert index.step in (None, 1)
            return self._first(self._length if index.stop is None else index.stop)
        for run in self._runs:
            if index < len(run):
                return run[index]
            index -= len(run)
        raise IndexError(index)

    def _first(self, count: int) -> "Runs":
        kept: list[range] = []
        for run in self._runs:
            if count <= 0:
                break
            kept.append(run[:count])
            count -= len(run)
        return Runs(kept)


@dataclass(frozen=True, slots=True)
class Answered:
    """What a gateway logged of a request's answer."""

    tenant: str
    """"" where no keys are asked for"""
    policy: str
    cached: int | None
    """prompt tokens that the engine reported as cached"""
    predicted: int | None
    """that the gateway predicted to be"""
    ttft: float | None
    """seconds"""
    predicted_ttft: float | None


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace."""

    arrival: float
    """seconds after the trace's start; what follows another request arrives when that one's answer says"""
    prompt_tokens: int
    output_tokens: int
    blocks: Sequence[int]
    """ids of the prompt's blocks, chained: an id stands for its block and all before it; the last may be partial"""
    follows: int | None = None
    """the position in its trace of the request whose answer must be there before this one is sent"""
    pause: float = 0.0
    """seconds between that answer's end and this request"""
    answered: Answered | None = None
    """where it is known what came of it"""


def lookup(request: TraceRequest, block_size: int) -> Lookup:
    """What a cache of blocks is asked. A prompt's last token is always computed; partial blocks are not kept."""
    tokens = request.prompt_tokens
    return Lookup(tokens, request.blocks[: (tokens - 1) // block_size], request.blocks[: tokens // block_size])


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival."""

    name: str
    block_size: int
    """tokens of a block"""
    requests: Sequence[TraceRequest]

    @property
    def seconds(self) -> float:
        """From the first arrival to the last, as recorded."""
        return self.requests[-1].arrival - self.requests[0].arrival if self.requests else 0.0

    def lookups(self) -> Iterator[Lookup]:
        """What a cache of blocks is asked."""
        return (lookup(request, self.block_size) for request in self.requests)

    def part(self, start: int, count: int) -> "Trace":
        """`count` requests from position `start` on, arriving from 0 on."""
        return self._of(range(start, min(start + count, len(self.requests))))

    def families(self, share: float, seed: int) -> "Trace":
        """About `share` (0-1) of the requests, with all those that share a prompt's second block with them.

        A few requests that are spread over the whole time and still share as much as all do.
        """
        numbered = enumerate(self.requests)
        return self._of([at for at, one in numbered if _drawn(_second(one.blocks), seed) < share])

    def up_to(self, tokens: int) -> "Trace":
        """Only the requests that fit a model's context of `tokens`, prompt and output together."""
        numbered = enumerate(self.requests)
        return self._of([at for at, one in numbered if one.prompt_tokens + one.output_tokens <= tokens])

    def staggered(self, at_once: int) -> "Trace":
        """Its closed loops begun one after the other, so that `at_once` of them are under way on average.

        For traces that do not tell when each began. Only the time in which so many are under way: before, loops have
        yet to begin, and behind it the longest are left alone. Raises TraceError if that is none of it.
        """
        loop: list[int] = []
        first: dict[int, float] = {}
        last: dict[int, float] = {}
        for at, one in enumerate(self.requests):
            loop.append(at if one.follows is None else loop[one.follows])
            first.setdefault(loop[at], one.arrival)
            last[loop[at]] = one.arrival
        too_few = TraceError(f"{self.name}: {len(first)} sessions are too few to have {at_once} under way for long")
        if len(first) <= at_once:
            raise too_few
        mean = sum(last[one] - first[one] for one in first) / len(first)
        delay = {one: number * mean / at_once - first[one] for number, one in enumerate(first)}
        arrivals = [one.arrival + delay[loop[at]] for at, one in enumerate(self.requests)]
        end = (len(first) - 1) * mean / at_once
        steady = sorted((at for at, arrival in enumerate(arrivals) if mean <= arrival <= end), key=arrivals.__getitem__)
        if not steady:
            raise too_few
        moved = [replace(one, arrival=at) for one, at in zip(self.requests, arrivals, strict=True)]
        return replace(self, requests=moved)._of(steady)

    def compressed(self, factor: float) -> "Trace":
        """Arrivals and pauses `factor` times as dense."""
        return replace(
            self,
            requests=[replace(one, arrival=one.arrival / factor, pause=one.pause / factor) for one in self.requests],
        )

    def _of(self, positions: Sequence[int]) -> "Trace":
        """Some of the requests; what follows one that is left out follows none."""
        moved = {old: new for new, old in enumerate(positions)}
        begin = self.requests[positions[0]].arrival if positions else 0.0
        kept = [
            replace(
                one,
                arrival=one.arrival - begin,
                follows=moved.get(one.follows) if one.follows is not None else None,
            )
            for one in map(self.requests.__getitem__, positions)
        ]
        return replace(self, requests=kept)


def _second(blocks: Sequence[int]) -> int:
    """The second block; the only one, or -1, where there are fewer."""
    return blocks[min(1, len(blocks) - 1)] if blocks else -1


def _drawn(block: int, seed: int) -> float:
    """A number from 0 to 1, the same for the same block and seed."""
    return Random(f"{seed} {block}").random()
