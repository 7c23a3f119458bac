"""The texts of a score or rerank request, in all the forms that vLLM takes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gateway.prompt.result import CannotScore, Reason

_FORMS = (("queries", "documents"), ("queries", "items"), ("data_1", "data_2"), ("text_1", "text_2"))
"""the fields of both sides; of several that are there and valid the first counts"""


class ScoredTexts(NamedTuple):
    """Two sides: as many texts on both, or one against all of the other's."""

    one: Sequence[str]
    other: Sequence[str]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Each pair that is scored."""
        ones = self.one if len(self.one) > 1 else [self.one[0]] * len(self.other)
        return zip(ones, self.other, strict=True)


def scored_texts(body: Mapping[str, Any]) -> ScoredTexts:
    """Of a score request. Raises CannotScore."""
    for one, other in _FORMS:
        if _is_valid(body.get(one)) and _is_valid(body.get(other)):
            return _checked(body[one], body[other])
    raise CannotScore(Reason.MALFORMED)


def reranked_texts(body: Mapping[str, Any]) -> ScoredTexts:
    """Of a rerank request, which has one query. Raises CannotScore."""
    query, documents = body.get("query"), body.get("documents")
    if isinstance(query, list) or not _is_valid(query) or not _is_valid(documents):
        raise CannotScore(Reason.MALFORMED)
    return _checked(query, documents)


def _is_valid(side: object) -> bool:
    return isinstance(side, str | Mapping) or (
        isinstance(side, list) and all(isinstance(text, str | Mapping) for text in side)
    )


def _checked(one: Any, other: Any) -> ScoredTexts:
    ones, others = (side if isinstance(side, list) else [side] for side in (one, other))
    if not ones or not others or (len(ones) > 1 and len(ones) != len(others)):
        raise CannotScore(Reason.REFUSED)
    if not all(isinstance(text, str) for text in (*ones, *others)):
        raise CannotScore(Reason.CONVERSION)  # parts, perhaps with images
    return ScoredTexts(ones, others)
