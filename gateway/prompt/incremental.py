"""Encoding that remembers: texts are cut where that changes nothing, and pieces seen before are not encoded again."""

import random
import sys
from array import array
from collections.abc import Callable, Sequence

from gateway.prompt.cuts import AddedToken, Cuts
from gateway.prompt.encoders import Encoder, HuggingFaceEncoder
from gateway.prompt.proof import first_difference, hostile_texts
from gateway.prompt.recent import Recent
from gateway.prompt.words import WordEncoder

PIECE = 2048
"""characters"""
LITTLE = 8192
"""characters: where no more are new, as in a conversation's next turn, most of their words are those of other texts"""
WORDS_SHARE = 8
"""one byte in so many of what may be spent is for words"""
PROOF_TEXTS = 300
AT_ONCE = {"fastokens": 32_768}
"""characters that are encoded in about 2 ms, by encoder"""
_AT_ONCE_SLOW = 2048


class IncrementalEncoder:
    """An encoder that caches the ids of pieces. Thread-safe.

    A conversation's next turn costs the new turn, a document with another question costs the question.
    """

    def __init__(self, encoder: Encoder, cuts: Cuts, *, max_bytes: int, of_little: Encoder | None = None) -> None:
        """max_bytes: of texts and ids kept; the least recently used go first.
        of_little: gives the same ids as `encoder`, and is used where little is new.
        """
        self.name = encoder.name
        self._encoder = encoder
        self._of_little = of_little or encoder
        self._cuts = cuts
        self._known: Recent[str, array[int]] = Recent(max_bytes)
        self._before, self._after = _around(encoder)

    @property
    def cached_bytes(self) -> int:
        """What the cache holds now."""
        return self._known.bytes

    def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
        return self.encode_if(lambda length: None, text, add_special_tokens)

    def encode_if(self, allowed: Callable[[int], None], text: str, add_special_tokens: bool) -> Sequence[int]:
        """As `encode`. allowed: is told how many characters are new before any of them is encoded, and may raise."""
        pieces = [(piece, self._known.get(piece)) for piece in self._cuts.pieces(text)]
        new = sum(len(piece) for piece, known in pieces if known is None)
        allowed(new)
        encoder = self._of_little if new <= LITTLE else self._encoder
        ids = array("I", self._before if add_special_tokens else ())
        for piece, known in pieces:
            if known is None:
                known = array("I", encoder.encode(piece, False))
                self._known.put(piece, known, sys.getsizeof(piece) + sys.getsizeof(known))
            ids.extend(known)
        if add_special_tokens:
            ids.extend(self._after)
        return ids


class TooMuch(Exception):
    """More is new than may be encoded at once."""


class AtOnce:
    """An encoder for one request that takes a few milliseconds in all, or raises TooMuch."""

    def __init__(self, encoder: Encoder) -> None:
        self.name = encoder.name
        self._encoder = encoder
        self._left = AT_ONCE.get(encoder.name, _AT_ONCE_SLOW)

    def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
        if isinstance(self._encoder, IncrementalEncoder):
            return self._encoder.encode_if(self._spend, text, add_special_tokens)
        self._spend(len(text))
        return self._encoder.encode(text, add_special_tokens)

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise TooMuch


def proven_incremental(
    encoder: Encoder, added_tokens: Sequence[AddedToken], *, spaces: str, max_bytes: int
) -> IncrementalEncoder | None:
    """An incremental form of an encoder that gives the same ids, cutting as finely as that allows; None if none does.

    spaces: the white space that may be tried to be cut off a word before it.
    """
    contents = [token.content for token in added_tokens]
    for tried in (spaces, "") if spaces else ("",):
        # Cut at every chance while proving, so that each kind of place is tried many times.
        trial = IncrementalEncoder(encoder, Cuts(added_tokens, piece=1, spaces=tried), max_bytes=1 << 20)
        if _equal(trial, encoder, contents, False) and _equal(trial, encoder, contents, True):
            cuts = Cuts(added_tokens, piece=PIECE, spaces=tried)
            words = _proven_words(encoder, contents, spaces=tried, max_bytes=max_bytes // WORDS_SHARE)
            for_pieces = max_bytes - max_bytes // WORDS_SHARE if words else max_bytes
            return IncrementalEncoder(encoder, cuts, max_bytes=for_pieces, of_little=words)
    return None


def _proven_words(encoder: Encoder, added_tokens: Sequence[str], *, spaces: str, max_bytes: int) -> WordEncoder | None:
    """A memory of words before an encoder, of which pieces are asked without special tokens; None without a gain."""
    if not spaces or not isinstance(encoder, HuggingFaceEncoder):
        return None
    words = WordEncoder(encoder, spaces=spaces, max_bytes=max_bytes)
    return words if _equal(words, encoder, added_tokens, False) else None


def _equal(one: Encoder, other: Encoder, added_tokens: Sequence[str], add_special_tokens: bool) -> bool:
    texts = hostile_texts(random.Random(2), added_tokens, PROOF_TEXTS)
    return first_difference(one, other, texts, add_special_tokens=add_special_tokens) is None


def _around(encoder: Encoder) -> tuple[list[int], list[int]]:
    """The special tokens that the encoder puts before and after a text."""
    bare, dressed = (list(encoder.encode("a", special)) for special in (False, True))
    at = next((at for at in range(len(dressed)) if dressed[at : at + len(bare)] == bare), 0)
    return dressed[:at], dressed[at + len(bare) :]
