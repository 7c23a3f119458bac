"""`kv_transfer_params.prompt_token_ids`: what tells an engine to take these ids and skip template and tokenizer.

vLLM does not compare them with the messages, so a client that could set them could skip the template and find out by
the timing what others have cached. Only the gateway may: a client's are taken out, always.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gateway.relay.splice import remove_member, set_member

PARAMS = "kv_transfer_params"
IDS = "prompt_token_ids"


TAKEN_ON = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages"})
"""Paths whose engine side takes ids."""


class _Params(msgspec.Struct):
    kv_transfer_params: msgspec.Raw = msgspec.Raw(b"null")


_decoder = msgspec.json.Decoder(_Params)


def without_ids(raw: bytes, params: object) -> bytes:
    """A body without ids of the client's; all else byte for byte.

    params: the body's `kv_transfer_params`, decoded.
    """
    if params is None or not isinstance(params, Mapping) or IDS not in params:
        return raw
    return set_member(raw, PARAMS, remove_member(_written(raw), IDS))


def with_ids(raw: bytes, params: object, ids: Sequence[int]) -> bytes:
    """A body that carries `ids` beside whatever parameters the client gave.

    params: the body's `kv_transfer_params`, decoded: an object or None.
    """
    value = msgspec.json.encode(list(ids))
    written = set_member(_written(raw) if params else b"{}", IDS, value)
    return set_member(raw, PARAMS, written)


def _written(raw: bytes) -> bytes:
    """The parameters as the client wrote them."""
    return bytes(_decoder.decode(raw).kv_transfer_params)
