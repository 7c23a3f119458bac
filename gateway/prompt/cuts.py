"""Where a text can be cut so that its pieces, encoded each by itself, give the tokens of the whole."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_SPACES: Mapping[str, str] = {" ": " Ġ▁", "\n": "\nĊ"}
"""white space, and how vocabularies write it: as itself, in byte-level form, in sentencepiece form"""


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

    @property
    def cuts(self) -> bool:
        """Whether the text before one is encoded as if nothing came behind it."""
        return bool(self.content) and not (self.normalized or self.lstrip or self.single_word)


class Cuts:
    """The places for one tokenizer.

    Before an added token, because nothing that is done to the text reaches over one; and between a letter or digit and
    white space.
    """

    def __init__(self, added_tokens: Sequence[AddedToken], *, piece: int, least: int, spaces: str) -> None:
        """piece: about how many characters without an added token stay in one piece.
        least: how many stay in one piece although an added token comes.
        spaces: the white-space characters that may be cut off a letter or digit, perhaps none.
        """
        self._piece = piece
        self._least = least
        self._between_words = re.compile(f"[A-Za-z0-9](?=[{spaces}])") if spaces else None
        found_first = [token for token in added_tokens if not token.normalized and token.content]
        # The longest of those that start at one place is the one that counts.
        contents = sorted((token.content for token in found_first), key=len, reverse=True)
        self._added = re.compile("|".join(map(re.escape, contents))) if contents else None
        self._no_cut_before = frozenset(token.content for token in found_first if token.lstrip or token.single_word)
        self._apart = {content[0] for content in contents}.isdisjoint("".join(content[1:] for content in contents))

    def pieces(self, text: str) -> Iterator[str]:
        """The pieces of a text, in order. A longer text that starts with this one has all of them but the last."""
        start = 0
        while start < len(text):
            end = self._before_added(text, start)
            yield from self._words(text, start, end)
            start = end

    def _before_added(self, text: str, start: int) -> int:
        """Where the first added token is that a piece from `start` on ends before; the text's end if there is none."""
        if self._added is not None:
            least = start + self._least
            # Where none can begin inside another, what looks like one is one, however little was read before it.
            for found in self._added.finditer(text, least + 1 if self._apart else start):
                if found.start() > least and found.group() not in self._no_cut_before:
                    return found.start()
        return len(text)

    def _words(self, text: str, start: int, end: int) -> Iterator[str]:
        if self._between_words is not None:
            while end - start > self._piece:
                found = self._between_words.search(text, start + self._piece, end)
                if found is None:
                    break
                yield text[start : found.end()]
                start = found.end()
        yield text[start:end]


def spaces_between_words(vocabulary: Iterable[str]) -> str:
    """The white-space characters that no token of a BPE vocabulary joins to a letter or digit before them.

    No merge crosses such a border, whatever the text around it is.
    """
    spaces = set(_SPACES)
    crossing = {space: re.compile(f"[A-Za-z0-9][{signs}]") for space, signs in _SPACES.items()}
    for token in vocabulary:
        spaces -= {space for space in spaces if crossing[space].search(token)}
    return "".join(sorted(spaces))
