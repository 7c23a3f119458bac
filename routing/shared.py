"""What of a prompt lies in shared storage (L2), where every engine can load it from."""

from typing import NamedTuple


class SharedPrefix(NamedTuple):
    """The beginning of a prompt that is stored for all engines, in whole chunks, and what loading it takes."""

    tokens: int = 0
    """leading tokens; a multiple of `chunk`"""
    chunk: int = 1
    base: float = 0.0
    """seconds that a load takes whatever its length"""
    per_token: float = 0.0
    """seconds for each token loaded"""
    least: int = 0
    """tokens below which an engine does not load at all (LMCache's `min_retrieve_tokens`)"""

    def beyond(self, l0: int, l1: int, reusable: int) -> int:
        """Tokens that an engine gets from here and from nowhere else.

        l0, l1: tokens it has in GPU memory, and in GPU or host memory. reusable: those that a cache can spare.
        """
        found = min(self.tokens, reusable)
        return found - l1 if found > l1 and self.tokens - l0 >= self.least else 0

    def load(self, l1: int, beyond: int) -> float:
        """Seconds that it takes to load them: a chunk that is there in part is loaded as a whole."""
        return self.base + self.per_token * (beyond + l1 % self.chunk) if beyond else 0.0


NOTHING_SHARED = SharedPrefix()
