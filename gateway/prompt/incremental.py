"""Encoding that remembers: texts are cut where that changes nothing, and pieces seen before are not encoded again."""

import random
import sys
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from gateway.prompt.cuts import AddedToken, Cuts
from gateway.prompt.encoders import Encoder, HuggingFaceEncoder
from gateway.prompt.proof import first_difference, hostile_texts
from gateway.prompt.recent import Recent
from gateway.prompt.words import WordEncoder

PIECE = 2048
"""characters"""
STRETCH = 8192
"""characters whose pieces are looked up as one where all of them are known"""
LITTLE = 8192
"""characters: where no more are new, as in a conversation's next turn, most of their words are those of other texts"""
WORDS_SHARE = 8
"""one byte in so many of what may be spent is for words"""
PROOF_TEXTS = 300

_Ids = Sequence["array[int]"]
"""the ids of a piece, or of each piece of a stretch"""


class _Pace(NamedTuple):
    """What follows from how fast an encoder is, in characters."""

    quick: int
    """encoded sooner than looked up and remembered"""
    least: int
    """that stay in one piece whatever they are: half as many are encoded again with each turn"""
    at_once: int
    """encoded in about 2 ms"""


_PACES = {"fastokens": _Pace(quick=2048, least=1024, at_once=32_768)}
_SLOW = _Pace(quick=0, least=256, at_once=2048)


def _pace(encoder: Encoder) -> _Pace:
    return _PACES.get(encoder.name, _SLOW)


class IncrementalEncoder:
    """An encoder that caches the ids of pieces. Thread-safe.

    A conversation's next turn costs the new turn, a document with another question costs the question.
    """

    def __init__(
        self, encoder: Encoder, cuts: Cuts, stretches: Cuts, *, max_bytes: int, of_little: Encoder | None = None
    ) -> None:
        """stretches: cuts texts at fewer places; what lies between is remembered as a whole too, so that of a long
        text only the end is looked up piece by piece.
        max_bytes: of texts and ids kept; the least recently used go first.
        of_little: gives the same ids as `encoder`, and is used where little is new.
        """
        self.name = encoder.name
        self._encoder = encoder
        self._of_little = of_little or encoder
        self._cuts = cuts
        self._stretches = stretches
        self._quick = _pace(encoder).quick
        self._known: Recent[str, _Ids] = Recent(max_bytes)
        self._before, self._after = _around(encoder)

    @property
    def cached_bytes(self) -> int:
        """What the cache holds now."""
        return self._known.bytes

    def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
        return self.encode_if(lambda length: None, text, add_special_tokens)

    def encode_if(self, allowed: Callable[[int], None], text: str, add_special_tokens: bool) -> Sequence[int]:
        """As `encode`. allowed: is told how many characters are new before any of them is encoded, and may raise."""
        if len(text) <= self._quick:
            allowed(len(text))
            return self._encoder.encode(text, add_special_tokens)
        stretches = [(stretch, self._look_up(stretch)) for stretch in self._stretches.pieces(text)]
        new = {piece: None for _, pieces in stretches for piece, known in pieces if known is None}
        allowed(sum(map(len, new)))
        learned = self._learn(new)
        ids = array("I", self._before if add_special_tokens else ())
        for number, (stretch, pieces) in enumerate(stretches, 1):
            parts = [part for piece, known in pieces for part in known or learned[piece]]
            for part in parts:
                ids.extend(part)
            if len(pieces) > 1 and number < len(stretches):
                self._remember(stretch, parts)
        if add_special_tokens:
            ids.extend(self._after)
        return ids

    def _look_up(self, stretch: str) -> Sequence[tuple[str, _Ids | None]]:
        """The pieces of a stretch and what is known of them; the stretch itself where that is known."""
        known = self._known.get(stretch)
        if known is not None:
            return [(stretch, known)]
        return [(piece, self._known.get(piece)) for piece in self._cuts.pieces(stretch)]

    def _learn(self, pieces: Collection[str]) -> Mapping[str, _Ids]:
        """The ids of pieces that are new, remembered from now on."""
        encoder = self._of_little if sum(map(len, pieces)) <= LITTLE else self._encoder
        learned = {piece: [array("I", encoder.encode(piece, False))] for piece in pieces}
        for piece, ids in learned.items():
            self._remember(piece, ids)
        return learned

    def _remember(self, text: str, ids: _Ids) -> None:
        self._known.put(text, ids, sys.getsizeof(text) + sum(map(sys.getsizeof, ids)))


class TooMuch(Exception):
    """More is new than may be encoded at once."""


class AtOnce:
    """An encoder for one thread: from one `begin` to the next it takes a few milliseconds in all, or raises TooMuch."""

    def __init__(self, encoder: Encoder) -> None:
        self.name = encoder.name
        self._encoder = encoder
        self._most = _pace(encoder).at_once
        self._left = self._most

    def begin(self) -> None:
        """Another request comes."""
        self._left = self._most

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
        everywhere = Cuts(added_tokens, piece=1, least=0, spaces=tried)
        stretches = Cuts(added_tokens, piece=16, least=16, spaces=tried)
        trial = IncrementalEncoder(encoder, everywhere, stretches, max_bytes=1 << 20)
        if _equal(trial, encoder, contents, False) and _equal(trial, encoder, contents, True):
            cuts = Cuts(added_tokens, piece=PIECE, least=_pace(encoder).least, spaces=tried)
            stretches = Cuts(added_tokens, piece=STRETCH, least=STRETCH, spaces=tried)
            words = _proven_words(encoder, contents, spaces=tried, max_bytes=max_bytes // WORDS_SHARE)
            for_pieces = max_bytes - max_bytes // WORDS_SHARE if words else max_bytes
            return IncrementalEncoder(encoder, cuts, stretches, max_bytes=for_pieces, of_little=words)
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
