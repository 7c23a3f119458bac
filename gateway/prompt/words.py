"""Encoding that remembers words: in a text that nobody has written before, most words are those of other texts."""

import re
import sys
import threading
from array import array
from collections.abc import Mapping, Sequence

from gateway.prompt.encoders import HuggingFaceEncoder

LONGEST = 32
"""characters of a word that is remembered: what is longer, as text without spaces is, hardly comes again"""
_ENTRY_BYTES = 100
"""what a word takes in a dictionary besides itself and its ids"""


class WordEncoder:
    """An encoder that remembers the ids of words. Thread-safe.

    It takes half the time where most words are known, and up to twice where none are. A word ends where a letter or
    digit meets white space, and no token reaches across: those of a text's words that are new are encoded as one text.
    """

    def __init__(self, encoder: HuggingFaceEncoder, *, spaces: str, max_bytes: int) -> None:
        """spaces: the white-space characters that may be cut off a letter or digit.
        max_bytes: of words and ids kept. Beyond them all are forgotten: to keep account of which were used last would
        take as long as is saved.
        """
        self.name = encoder.name
        self._encoder = encoder
        self._word = re.compile(f".[^{spaces}]*(?:(?<![A-Za-z0-9])[{spaces}]+[^{spaces}]*)*", re.DOTALL)
        self._max_bytes = max_bytes
        self._bytes = 0
        self._known: dict[str, bytes] = {}
        self._learning = threading.Lock()

    @property
    def cached_bytes(self) -> int:
        """What is remembered now."""
        return self._bytes

    def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
        if add_special_tokens:
            return self._encoder.encode(text, True)
        words = self._word.findall(text)
        known = list(map(self._known.get, words))
        found: Mapping[str, bytes] = {}
        if None in known:
            new = list(dict.fromkeys(word for word, ids in zip(words, known, strict=True) if ids is None))
            if 2 * sum(len(word) for word in new if len(word) > LONGEST) > len(text):
                return self._encoder.encode(text, False)  # twice as fast as to keep apart what is not remembered
            found = self._learn(new)
        parts = [found[word] if ids is None else ids for word, ids in zip(words, known, strict=True)]
        return array("I", b"".join(parts))

    def _learn(self, words: Sequence[str]) -> Mapping[str, bytes]:
        """The ids of some words of one text, in their order there."""
        found = dict(zip(words, self._encoder.encode_parts(words), strict=True))
        self._remember({word: ids for word, ids in found.items() if len(word) <= LONGEST})
        return found

    def _remember(self, new: Mapping[str, bytes]) -> None:
        size = sum(sys.getsizeof(word) + sys.getsizeof(ids) + _ENTRY_BYTES for word, ids in new.items())
        with self._learning:
            if self._bytes + size > self._max_bytes:
                self._known, self._bytes = {}, 0
            if size <= self._max_bytes:
                self._known.update(new)
                self._bytes += size
