"""Two texts in one prompt, as a tokenizer puts them together."""

import itertools
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from gateway.prompt.proof import hostile_texts

PROOF_PAIRS = 60


class PairFrame(NamedTuple):
    """The special tokens around two texts that are encoded as a pair."""

    before: Sequence[int]
    between: Sequence[int]
    after: Sequence[int]

    def around(self, one: Sequence[int], other: Sequence[int]) -> Sequence[int]:
        """The ids of the pair. one, other: each text's own, without special tokens."""
        return [*self.before, *one, *self.between, *other, *self.after]


def pair_frame(tokenizer: Any) -> PairFrame | None:
    """What a tokenizer of transformers puts around pairs; None where it changes the texts' own ids."""

    def bare(text: str) -> list[int]:
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def paired(one: str, other: str) -> list[int]:
        ids: list[int] = tokenizer(text=one, text_pair=other)["input_ids"]
        return ids

    whole, one, other = paired("a", "b"), bare("a"), bare("b")
    first = _find(whole, one, 0)
    second = _find(whole, other, first + len(one))
    if first < 0 or second < 0:
        return None
    frame = PairFrame(whole[:first], whole[first + len(one) : second], whole[second + len(other) :])
    texts = list(hostile_texts(random.Random(3), (), PROOF_PAIRS + 1))
    return frame if all(paired(a, b) == frame.around(bare(a), bare(b)) for a, b in itertools.pairwise(texts)) else None


def _find(ids: Sequence[int], part: Sequence[int], start: int) -> int:
    ends = len(ids) - len(part) + 1
    return next((at for at in range(start, ends) if ids[at : at + len(part)] == part), -1)
