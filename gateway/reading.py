"""What a request's body says to the choice: its prompts as token ids and blocks."""

from collections.abc import Callable, Mapping, Sequence, Set

import msgspec

from gateway.api.parse import document
from gateway.chains import Chains
from gateway.prompt.result import EncodedPrompts, Reason, Unscored
from routing.blocks import repeats
from routing.decision import Prompt, RouteRequest
from routing.types import BlockHash, Namespace


class Reading(msgspec.Struct, frozen=True):
    """What a request's body says to the choice."""

    route: RouteRequest
    tokens: tuple[Sequence[int], ...] = ()
    """the token ids of each of its prompts, up to the first image; empty where they are not known"""
    reason: Reason | None = None
    """why they are not known, where they were looked for"""
    salt: str | None = None
    """the request's `cache_salt`"""


Encoded = EncodedPrompts | Unscored


def read(
    encode: Callable[[str, Mapping[str, object]], Encoded],
    endpoint: str,
    raw: bytes,
    chain: Callable[[Encoded], Reading],
) -> Reading:
    """Read a body and go on with `chain`. encode: `PromptReader.read`, or `read_at_once`."""
    return chain(encode(endpoint, document(raw)))


def chained(
    model: str,
    root: Callable[..., BlockHash],
    namespaces: Set[Namespace],
    chains: Chains,
    encoded: Encoded,
) -> Reading:
    """Hash the blocks of each prompt, once for each namespace.

    root: what stands before block 0, given a model's name, a block size and a salt.
    """
    if isinstance(encoded, Unscored):
        return Reading(RouteRequest(model), (), encoded.reason)
    roots = {space: root(space.model, space.block_size, salt=encoded.salt) for space in namespaces}
    whole = encoded.images_from is None
    hashed = [
        {space: chains.hashes(tokens, space.block_size, parent) for space, parent in roots.items()}
        for tokens in encoded.prompts
    ]
    repeated = repeats(hashed) if len(hashed) > 1 else [{}]
    prompts = tuple(
        Prompt(len(tokens), chain, whole, again)
        for tokens, chain, again in zip(encoded.prompts, hashed, repeated, strict=True)
    )
    return Reading(RouteRequest(model, prompts), encoded.prompts, salt=encoded.salt)
