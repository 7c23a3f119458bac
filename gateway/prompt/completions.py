"""A completion request's `prompt`: text, several texts, token ids, or several lists of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.prompt import fields
from gateway.prompt.result import CannotScore, Reason
from gateway.prompt.tokenizer import Tokenizer
from gateway.prompt.truncation import Truncation

_MAX_TOKEN_ID = 2**32 - 1


def encode_completion(
    body: Mapping[str, Any], tokenizer: Tokenizer, truncation: Truncation
) -> tuple[Sequence[int], ...]:
    """One sequence of token ids for each prompt.

    Raises CannotScore.
    """
    if body.get("suffix") is not None:
        raise CannotScore(Reason.REFUSED)
    return encode_inputs(
        body.get("prompt"), tokenizer, truncation, add_special_tokens=fields.flag(body, "add_special_tokens", True)
    )


def encode_inputs(
    inputs: object, tokenizer: Tokenizer, truncation: Truncation, *, add_special_tokens: bool
) -> tuple[Sequence[int], ...]:
    """Text, texts, token ids or lists of them -> one sequence of token ids each.

    add_special_tokens: for text; ids are taken as they are.
    Raises CannotScore.
    """
    if isinstance(inputs, str):
        return (truncation.encode(tokenizer, inputs, add_special_tokens),)
    if not isinstance(inputs, list):
        raise CannotScore(Reason.MALFORMED)
    if not inputs:
        raise CannotScore(Reason.EMPTY)
    if all(isinstance(item, str) for item in inputs):
        return tuple(truncation.encode(tokenizer, item, add_special_tokens) for item in inputs)
    if _are_token_ids(inputs):
        return (truncation.cut(inputs),)
    if all(isinstance(item, list) and _are_token_ids(item) for item in inputs):
        return tuple(truncation.cut(item) for item in inputs)
    raise CannotScore(Reason.MALFORMED)


def _are_token_ids(items: list[Any]) -> bool:
    # bool is an int to isinstance, and the engine would convert it.
    return all(type(item) is int and 0 <= item <= _MAX_TOKEN_ID for item in items)
