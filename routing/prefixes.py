"""From runs of equal holders along a chain to how long a prefix each holder has."""

from collections.abc import Iterable, Mapping, Sequence

from routing.types import PrefixMatch

BITS = 2
"""per holder in a mask: bit `slot * BITS + tier`, for the tiers that belong to one engine (GPU, CPU)"""


def prefix_matches(runs: Iterable[tuple[int, int]], taken: int, length: int) -> Mapping[int, PrefixMatch]:
    """How many leading blocks each slot holds; slots that hold none are absent.

    runs: (index of the first block, mask of its holders) of each run of blocks with the same holders, in order from 0.
    taken: the lowest bit of every slot that counts.
    length: blocks of the chain.
    """
    in_gpu = in_any = taken
    gpu_ends: list[tuple[int, int]] = []
    any_ends: list[tuple[int, int]] = []
    for depth, mask in runs:
        left = in_gpu & ~mask
        if left:
            in_gpu ^= left
            if depth:
                gpu_ends.append((left, depth))
        left = in_any & ~(mask | mask >> 1)
        if left:
            in_any ^= left
            if depth:
                any_ends.append((left, depth))
        if not in_any:
            break
    gpu_ends.append((in_gpu, length))
    any_ends.append((in_any, length))
    l0 = _by_slot(gpu_ends)
    return {slot: PrefixMatch(l0.get(slot, 0), count) for slot, count in _by_slot(any_ends).items() if count}


def _by_slot(ends: Sequence[tuple[int, int]]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for bits, depth in ends:
        while bits:
            lowest = bits & -bits
            counts[(lowest.bit_length() - 1) // BITS] = depth
            bits ^= lowest
    return counts
