"""`kv_transfer_params.prompt_token_ids`: what tells an engine to take these ids and skip template and tokenizer.

vLLM does not compare them with the messages, so a client that could set them could skip the template and find out by
the timing what others have cached. Only the gateway may: a client's are taken out, always.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gateway.relay.splice import member_value, remove_member, set_member

PARAMS = "kv_transfer_params"
IDS = "prompt_token_ids"


TAKEN_ON = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages"})
"""Paths whose engine side takes ids."""


def without_ids(raw: bytes, params: object) -> bytes:
    """A body without ids of the client's; all else byte for byte.

    params: the body's `kv_transfer_params`, decoded.
    """
    if params is None or not isinstance(params, Mapping) or IDS not in params:
        return raw
    return set_member(raw, PARAMS, remove_member(member_value(raw, PARAMS), IDS))


def with_ids(raw: bytes, params: object, ids: Sequence[int]) -> bytes:
    """A body that carries `ids` beside whatever parameters the client gave.

    params: the body's `kv_transfer_params`, decoded: an object or None.
    """
    value = msgspec.json.encode(list(ids))
    written = set_member(member_value(raw, PARAMS) if params else b"{}", IDS, value)
    return set_member(raw, PARAMS, written)
