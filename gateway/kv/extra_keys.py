"""`extra_keys` of an event: what besides tokens and parent goes into vLLM's block hashes.

The keys of a block carry no tags. Their order is: the adapter's name, the images that overlap the block, the cache salt
(in the block at position 0 only), digests of prompt embeddings. An image is `[identifier, offset]`, up to vLLM 0.18 the
bare identifier; at position 0 such a one can pass for a salt, and the block is then found by nobody.
"""

from collections.abc import Sequence
from typing import Any

from routing.events import BlockExtras


def parse_extra_keys(
    keys: Sequence[Sequence[Any] | None], *, adapter: str | None, first: bool
) -> tuple[str | None, Sequence[BlockExtras | None]]:
    """The cache salt, and for each block what sets it apart.

    keys: one entry for each block.
    adapter: the event's adapter, whose name the keys repeat.
    first: the blocks start at position 0.
    Returns the salt, if there is one, and the extras, empty if no block has any.
    """
    salt: str | None = None
    extras: list[BlockExtras | None] = []
    for index, entry in enumerate(keys):
        entry = list(entry or ())
        if entry and adapter is not None and entry[0] == adapter:
            del entry[0]
        if first and index == 0:
            salt = _take_salt(entry)
        extras.append(_extras(entry) if entry else None)
    return salt, extras if any(extras) else ()


def _take_salt(entry: list[Any]) -> str | None:
    for position in reversed(range(len(entry))):
        if isinstance(entry[position], str):
            salt: str = entry.pop(position)
            return salt
    return None


def _extras(entry: Sequence[Any]) -> BlockExtras | None:
    images: list[tuple[str, int]] = []
    digest = b""
    for key in entry:
        match key:
            case str():
                images.append((key, 0))
            case [str(identifier), int(offset)]:
                images.append((identifier, offset))
            case bytes():
                digest += key
            case int():
                # An adapter's number or a token of lookahead hashing: neither changes what the block holds.
                pass
            case _:
                digest += repr(key).encode()
    return BlockExtras(tuple(images), digest) if images or digest else None
