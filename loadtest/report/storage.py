"""Shared storage (L2) in a forecast: what is stored, what a load takes, and from which length on it pays."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType

from loadtest.replica.timing import Profile
from routing.types import BlockHash

KV_BYTES_PER_TOKEN: Mapping[str, int] = MappingProxyType(
    {"qwen3-32b-h100": 262_144, "llama-8b-l40s": 131_072, "llama-8b-h100": 131_072}
)
"""Keys and values of all layers in 16 bit, all ranks together: 2 x layers x KV heads x 128 x 2 bytes."""
GIGABYTES_PER_SECOND = 1.84
"""at which one replica reads; Curvine's published figure"""
LOAD_BASE = 0.005
"""seconds that a load takes whatever its length"""
LONGEST = 1 << 20
"""tokens; what does not pay up to here never does"""


class Storage:
    """Blocks that every replica can load; the least recently used go first.

    capacity: blocks. per_token: seconds of loading.
    """

    def __init__(self, capacity: int, per_token: float, base: float = LOAD_BASE) -> None:
        self._capacity = capacity
        self._per_token = per_token
        self._base = base
        self._stored: OrderedDict[BlockHash, None] = OrderedDict()

    def found(self, wanted: Sequence[BlockHash]) -> int:
        """How many leading blocks are stored."""
        return sum(1 for _ in takewhile(self._stored.__contains__, wanted))

    def store(self, blocks: Sequence[BlockHash]) -> None:
        """A replica has these now, and writes them."""
        for block in reversed(blocks):
            self._stored[block] = None
            self._stored.move_to_end(block)
        while len(self._stored) > self._capacity:
            self._stored.popitem(last=False)

    def seconds(self, tokens: int) -> float:
        """Of loading so many."""
        return self._base + self._per_token * tokens


def load_per_token(profile: Profile, gigabytes_per_second: float = GIGABYTES_PER_SECOND) -> float:
    """Seconds to load one token's keys and values."""
    return KV_BYTES_PER_TOKEN[profile.name] / (gigabytes_per_second * 1e9)


def break_even(profile: Profile, gigabytes_per_second: float = GIGABYTES_PER_SECOND) -> int | None:
    """The shortest prefix, in tokens, that is loaded sooner than it is computed; None if none up to a million is.

    Attention makes long prefills dear, so what pays at one length pays at all longer ones.
    """
    per_token = load_per_token(profile, gigabytes_per_second)

    def pays(tokens: int) -> bool:
        return LOAD_BASE + per_token * tokens < profile.chunk_ms(tokens, 0) / 1000

    if not pays(LONGEST):
        return None
    least, enough = 0, LONGEST
    while enough - least > 1:
        middle = (least + enough) // 2
        if pays(middle):
            enough = middle
        else:
            least = middle
    return enough
