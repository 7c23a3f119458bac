"""What seeds an engine's block hashes: no route of vLLM tells `PYTHONHASHSEED`, so it is read off a hash by trying."""

import asyncio
from collections.abc import Iterable

import zmq
import zmq.asyncio

from gateway.kv.sources import Source
from gateway.kv.wire import WireError, decode
from gateway.l2.hashing import DIGESTS, engine_chain
from routing.events import BlockStored
from routing.types import Tier

TRIED: tuple[int | None, ...] = (None, *range(256))
"""seeds that people set"""
_FROM_THE_FIRST = bytes(8)
_END = b"\xff" * 8


async def first_block(source: Source, patience: float) -> BlockStored | None:
    """The earliest blocks at the beginning of a plain prompt that an engine's replay still has; None if it has none.

    patience: seconds in all.
    """
    if source.replay_endpoint is None:
        return None
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IPV6, 1)
        socket.connect(source.replay_endpoint)
        await socket.send_multipart([b"", _FROM_THE_FIRST])
        try:
            async with asyncio.timeout(patience):
                while len(frames := await socket.recv_multipart()) > 1 and frames[-2] != _END:
                    if (found := _plain_beginning(frames[-1])) is not None:
                        return found
        except (TimeoutError, WireError):
            return None
    return None


def seed_of(block: BlockStored, algorithm: str, tried: Iterable[int | None] = TRIED) -> str | None:
    """`unset`, or the seed in figures, with which vLLM gives the block its name; None where none of those tried does.

    algorithm: vLLM's `--prefix-caching-hash-algo`.
    """
    if algorithm not in DIGESTS:
        return None
    for seed in tried:
        try:
            chain = engine_chain(algorithm, seed)
        except ValueError:  # without a seed it is another one in each process
            continue
        name = chain.step(chain.root, block.tokens[: block.block_size], None)
        assert isinstance(name, bytes)
        if int.from_bytes(name[-8:], "big") == block.hashes[0]:
            return "unset" if seed is None else str(seed)
    return None


def _plain_beginning(payload: bytes) -> BlockStored | None:
    for event in decode(payload).events:
        if isinstance(event, BlockStored) and event.parent is None and event.tier is Tier.GPU and event.hashes:
            plain = event.adapter is None and event.salt is None and not any(event.extras)
            if plain and 0 < event.block_size <= len(event.tokens):
                return event
    return None
