"""Texts are cut where an added token begins, and only where one does that is not inside another."""

import re
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.prompt.cuts import AddedToken, Cuts

APART = ("<a>", "<ab>", "<a>>", "[b]")
OVERLAPPING = ("aa", "aab", "ba", "<a>", "<a><b>", "b>")


def begins(text: str, tokens: tuple[str, ...]) -> set[int]:
    """Where added tokens begin in a text that is read from its start, the longest first."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return {found.start() for found in re.finditer("|".join(map(re.escape, longest_first)), text)}


@pytest.mark.parametrize("tokens", [APART, OVERLAPPING])
@given(text=st.text("<ab>[]", max_size=60), least=st.integers(0, 12))
def test_a_piece_ends_before_the_first_added_token_that_it_may(tokens: tuple[str, ...], text: str, least: int) -> None:
    cuts = Cuts([AddedToken(token) for token in tokens], piece=1000, least=least, spaces="")
    pieces = list(cuts.pieces(text))
    assert "".join(pieces) == text
    expected, start = [], 0
    for at in sorted(begins(text, tokens)):
        if at > start + least:
            expected.append(at)
            start = at
    assert [*accumulate(map(len, pieces))][:-1] == expected


@given(text=st.text("<ab>[] ", max_size=60), longer=st.text("<ab>[] ", max_size=60))
def test_a_longer_text_has_the_same_pieces_but_the_last(text: str, longer: str) -> None:
    cuts = Cuts([AddedToken(token) for token in APART], piece=8, least=4, spaces=" ")
    same = list(cuts.pieces(text))[:-1]
    assert list(cuts.pieces(text + longer))[: len(same)] == same
