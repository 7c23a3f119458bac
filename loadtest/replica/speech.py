"""What a simulated model says: made-up words, the same for the same seed and prompt."""

import random
from array import array
from collections.abc import Sequence

import xxhash

from loadtest.replica.text import Text

MIN_WORDS = 24
MAX_WORDS = 160
"""a reply's natural length in tokens; a request's limit may cut it"""


class Speaker:
    """Chooses output tokens.

    Every token is a word of its own, so that a client which sends the reply back in its next turn gets the same tokens,
    and the blocks filled by generating are found again, as they nearly always are with real models.
    """

    def __init__(self, text: Text, seed: int) -> None:
        self._text = text
        self._seed = seed

    def reply(self, prompt: Sequence[int], limit: int, *, variant: int = 0, ignore_end: bool = False) -> list[int]:
        """At most `limit` > 0 tokens. The last one is the end token if the reply ended by itself.

        variant: tells several replies to one prompt apart. ignore_end: say exactly `limit` tokens.
        """
        digest = xxhash.xxh3_64_intdigest(array("I", prompt).tobytes(), (self._seed + variant) % 2**64)
        rng = random.Random(digest)
        natural = rng.randint(MIN_WORDS, MAX_WORDS)
        if ignore_end or limit <= natural:
            return self._words(rng, limit)
        return [*self._words(rng, natural), self._text.end]

    def _words(self, rng: random.Random, count: int) -> list[int]:
        return [rng.choice(self._text.first_words), *rng.choices(self._text.words, k=count - 1)]
