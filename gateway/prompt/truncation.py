"""`truncate_prompt_tokens`: prompts that are cut to a number of tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.prompt import fields
from gateway.prompt.result import CannotScore, Reason
from gateway.prompt.tokenizer import Tokenizer


class Truncation:
    """How one request's prompts are cut."""

    def __init__(
        self, body: Mapping[str, Any], *, max_model_len: int | None, generates: bool, tokenizer_cuts: str = "left"
    ) -> None:
        """generates: whether tokens are to follow. Then a prompt cut to the model's length leaves room for one.
        tokenizer_cuts: the side that the engine's tokenizer cuts on, `left` for models that generate, else `right`.

        Raises CannotScore where the length isn't known.
        """
        keep = fields.whole(body, "truncate_prompt_tokens")
        side = fields.text(body, "truncation_side")
        if side not in (None, "left", "right") or (keep is not None and keep < -1):
            raise CannotScore(Reason.REFUSED)
        if keep == -1:
            if max_model_len is None:
                raise CannotScore(Reason.TRUNCATION)
            keep = max_model_len - 1 if generates else max_model_len
        elif keep is not None and max_model_len is not None and keep > max_model_len:
            raise CannotScore(Reason.REFUSED)
        self._keep = keep
        self._side = side
        self._tokenizer_cuts = tokenizer_cuts

    def encode(self, tokenizer: Tokenizer, text: str, add_special_tokens: bool) -> Sequence[int]:
        """Encode and cut.

        Without a side in the request the tokenizer cuts, before it adds its special tokens; with one the finished ids
        are cut.
        """
        ids = tokenizer.encode(text, add_special_tokens)
        if self._keep is None or len(ids) <= self._keep:
            return ids
        bare = tokenizer.encode(text, False)
        added = len(ids) - len(bare)
        if self._side is not None or added == 0:
            return self.cut(ids)
        before = _added_in_front(ids, bare)
        room = self._keep - added
        if room < 0:
            raise CannotScore(Reason.TRUNCATION)
        kept = bare[:room] if self._tokenizer_cuts == "right" else bare[len(bare) - room :]
        return [*ids[:before], *kept, *ids[before + len(bare) :]]

    def cut_pair(self, ids: Sequence[int]) -> Sequence[int]:
        """Cut the ids of two texts. Without a side the tokenizer would shorten the longer of the two first."""
        if self._keep is not None and len(ids) > self._keep and self._side is None:
            raise CannotScore(Reason.TRUNCATION)
        return self.cut(ids)

    def cut(self, ids: Sequence[int]) -> Sequence[int]:
        """Cut finished ids."""
        if self._keep is None or len(ids) <= self._keep:
            return ids
        return ids[: self._keep] if (self._side or self._tokenizer_cuts) == "right" else ids[len(ids) - self._keep :]


def _added_in_front(ids: Sequence[int], bare: Sequence[int]) -> int:
    """How many special tokens were put before the text's own."""
    for before in range(len(ids) - len(bare) + 1):
        if ids[before : before + len(bare)] == bare:
            return before
    raise CannotScore(Reason.TRUNCATION)
