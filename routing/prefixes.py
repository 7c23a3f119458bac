"""From runs of equal holders along a chain to how long a prefix each holder has."""

from collections.abc import Iterable, Mapping
from itertools import chain

from routing.types import PrefixMatch

BITS = 2
"""per holder in a mask: bit `slot * BITS + tier`, for the tiers that belong to one engine (GPU, CPU)"""


def prefix_matches(runs: Iterable[tuple[int, int]], taken: int, length: int) -> Mapping[int, PrefixMatch]:
    """How many leading blocks each slot holds; slots that hold none are absent.

    runs: (index of the first block, mask of its holders) of each run of blocks with the same holders, in order from 0.
    taken: the lowest bit of every slot that counts.
    length: blocks of the chain.
    """
    found: dict[int, PrefixMatch] = {}
    # Who has held all blocks so far: in GPU memory, or some of them in host memory only.
    in_gpu, in_host = taken, 0
    for depth, mask in chain(runs, [(length, 0)]):
        ended = in_gpu & ~mask
        if ended:
            in_gpu ^= ended
            goes_on = ended & mask >> 1
            in_host |= goes_on
            if not depth:
                ended = goes_on
        if in_host and (left := in_host & ~(mask | mask >> 1)):
            in_host ^= left
            ended |= left
        if ended:
            match = PrefixMatch(depth, depth)
            while ended:
                lowest = ended & -ended
                slot = (lowest.bit_length() - 1) // BITS
                found[slot] = PrefixMatch(found[slot].l0, depth) if slot in found else match
                ended ^= lowest
        if not in_gpu and not in_host:
            break
    return found
