"""Where a text can be cut so that its pieces, encoded each by itself, give the tokens of the whole."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_BETWEEN_WORDS = re.compile(r"[A-Za-z0-9](?=[ \n])")
_REACHING_ACROSS = re.compile(r"[A-Za-z0-9][ \nĠĊ▁]")
"""white space as vocabularies write it: itself, in byte-level form, in sentencepiece form"""


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is cut out of a text before the model sees the rest."""

    content: str
    normalized: bool = False
    """looked for in normalised text, after those that are not"""
    lstrip: bool = False
    """takes in the white space before it"""
    single_word: bool = False
    """only where no word's character touches it"""


class Cuts:
    """The places for one tokenizer.

    Before an added token, because nothing that is done to the text reaches over one; and between a letter or digit and
    white space.
    """

    def __init__(self, added_tokens: Sequence[AddedToken], *, piece: int, between_words: bool) -> None:
        """piece: about how many characters without an added token stay in one piece.
        between_words: whether to cut between words at all.
        """
        self._piece = piece
        self._between_words = between_words
        found_first = [token for token in added_tokens if not token.normalized and token.content]
        # The longest of those that start at one place is the one that counts.
        contents = sorted((token.content for token in found_first), key=len, reverse=True)
        self._added = re.compile("|".join(map(re.escape, contents))) if contents else None
        self._no_cut_before = frozenset(token.content for token in found_first if token.lstrip or token.single_word)

    def pieces(self, text: str) -> Iterator[str]:
        """The pieces of a text, in order. A longer text that starts with this one has all of them but the last."""
        start = 0
        if self._added is not None:
            for found in self._added.finditer(text):
                if found.start() > start and found.group() not in self._no_cut_before:
                    yield from self._words(text, start, found.start())
                    start = found.start()
        yield from self._words(text, start, len(text))

    def _words(self, text: str, start: int, end: int) -> Iterator[str]:
        if self._between_words:
            while end - start > self._piece:
                found = _BETWEEN_WORDS.search(text, start + self._piece, end)
                if found is None:
                    break
                yield text[start : found.end()]
                start = found.end()
        if end > start:
            yield text[start:end]


def reaches_across(vocabulary: Iterable[str]) -> bool:
    """Whether some token of a BPE vocabulary joins a letter or digit and the white space behind it.

    If none does, no merge crosses that border, whatever the text around it is.
    """
    return any(_REACHING_ACROSS.search(token) for token in vocabulary)
