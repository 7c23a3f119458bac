"""What no router can beat: one cache for the whole fleet, endless, or of the fleet's total size.

A pooled cache sees the requests in order of arrival, each finished before the next one comes. Belady's knows the future
and evicts what is wanted last: no policy of that size can do better.
"""

import heapq
from collections import OrderedDict
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

NEVER = float("inf")


class Lookup(NamedTuple):
    """One request, to a cache of blocks."""

    tokens: int
    """of the prompt"""
    wanted: Sequence[int]
    """the leading blocks that may be found; a miss ends the run"""
    kept: Sequence[int]
    """the blocks that the cache can hold afterwards; at least those wanted"""


def infinite(lookups: Iterable[Lookup], block_size: int, warm_up: int = 0) -> float:
    """Hit ratio of tokens with a cache that never evicts.

    warm_up: leading requests that fill the cache and are not counted, here and below.
    """
    held: set[int] = set()
    hit = total = 0
    for number, lookup in enumerate(lookups):
        if number >= warm_up:
            hit += _run(lookup.wanted, held)
            total += lookup.tokens
        held.update(lookup.kept)
    return hit * block_size / max(1, total)


def pooled_lru(lookups: Iterable[Lookup], block_size: int, capacity: int, warm_up: int = 0) -> float:
    """Hit ratio of tokens with `capacity` blocks that evicts the least recently used; of one prompt, its tail first."""
    held: OrderedDict[int, None] = OrderedDict()
    hit = total = 0
    for number, lookup in enumerate(lookups):
        if number >= warm_up:
            hit += _run(lookup.wanted, held)
            total += lookup.tokens
        for block in reversed(lookup.kept):
            held[block] = None
            held.move_to_end(block)
        while len(held) > capacity:
            held.popitem(last=False)
    return hit * block_size / max(1, total)


def pooled_belady(lookups: Sequence[Lookup], block_size: int, capacity: int, warm_up: int = 0) -> float:
    """Hit ratio of tokens with `capacity` blocks that evicts what is wanted again last."""
    next_use = _next_uses(lookups)
    held: dict[int, float] = {}
    furthest: list[tuple[float, int, int]] = []
    hit = total = 0
    for number, (lookup, uses) in enumerate(zip(lookups, next_use, strict=True)):
        if number >= warm_up:
            hit += _run(lookup.wanted, held)
            total += lookup.tokens
        for depth, (block, use) in enumerate(zip(lookup.kept, uses, strict=True)):
            if use is NEVER:
                held.pop(block, None)
                continue
            held[block] = use
            # A block is no use without those before it, so of blocks wanted again together the deepest goes first.
            heapq.heappush(furthest, (-use, -depth, block))
        while len(held) > capacity:
            use, _, block = heapq.heappop(furthest)
            if held.get(block) == -use:
                del held[block]
    return hit * block_size / max(1, total)


def _run(wanted: Sequence[int], held: Container[int]) -> int:
    run = 0
    for block in wanted:
        if block not in held:
            break
        run += 1
    return run


def _next_uses(lookups: Sequence[Lookup]) -> list[list[float]]:
    """For each block kept, the number of the next request that wants it."""
    coming: dict[int, float] = {}
    uses: list[list[float]] = []
    for number in range(len(lookups) - 1, -1, -1):
        lookup = lookups[number]
        uses.append([coming.get(block, NEVER) for block in lookup.kept])
        coming.update(dict.fromkeys(lookup.wanted, number))
    uses.reverse()
    return uses
