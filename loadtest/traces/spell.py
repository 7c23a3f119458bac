"""Block ids -> tokens -> text: equal ids give equal text, and different ones text that differs at once.

So a router that looks at text sees the same sharing as one that looks at tokens.
"""

from array import array
from functools import lru_cache
from random import Random

import xxhash

from loadtest.replica.text import Text
from loadtest.traces.trace import Trace, TraceRequest

_BLOCKS_KEPT = 16_384


class Speller:
    """Spells out the prompts of one trace, in words of exactly one token each.

    seed: other seeds give other text with the same sharing.
    """

    def __init__(self, text: Text, trace: Trace, seed: int = 0) -> None:
        self._text = text
        self._size = trace.block_size
        self._seed = seed
        self._block = lru_cache(_BLOCKS_KEPT)(self._spelled)

    def tokens(self, request: TraceRequest) -> list[int]:
        """`request.prompt_tokens` token ids; each word has its leading space, the first one too."""
        tokens: list[int] = []
        for block in request.blocks:
            tokens += self._block(block)
        del tokens[request.prompt_tokens :]
        # Ids cover the whole prompt in every known trace; lengths that were rounded are filled up.
        tokens += [self._text.words[0]] * (request.prompt_tokens - len(tokens))
        return tokens

    def prompt(self, request: TraceRequest) -> str:
        """The text whose tokens are `tokens(request)`."""
        return "".join(map(self._text.piece, self.tokens(request)))

    def _spelled(self, block: int) -> tuple[int, ...]:
        words = self._text.words
        drawn = array("H", Random(f"{self._seed} {block}").randbytes(2 * self._size))
        return tuple([words[number % len(words)] for number in drawn])


class Numbers:
    """Prompts of one trace as token ids, for those who need no text: each block is one number, over and over."""

    def __init__(self, trace: Trace) -> None:
        self._size = trace.block_size
        self._block = lru_cache(_BLOCKS_KEPT)(self._numbered)

    def tokens(self, request: TraceRequest) -> "array[int]":
        """`request.prompt_tokens` token ids below 2**32."""
        tokens = array("I")
        for block in request.blocks:
            tokens += self._block(block)
        del tokens[request.prompt_tokens :]
        return tokens + array("I", [0]) * (request.prompt_tokens - len(tokens))

    def _numbered(self, block: int) -> "array[int]":
        return array("I", [xxhash.xxh32_intdigest(block.to_bytes(8, "little"))]) * self._size
