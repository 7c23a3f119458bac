"""Whether the sockets of an event stream answer from here."""

import asyncio
from urllib.parse import urlsplit

import zmq
import zmq.asyncio

from gateway.kv.listener import is_bound
from gateway.kv.sources import Source

_NOTHING_IS_AFTER = (2**63).to_bytes(8, "big")


async def unreachable(source: Source, patience: float) -> list[str]:
    """What of the stream does not answer, in words; empty where all does. patience: seconds for each socket."""
    faults = []
    if is_bound(source.endpoint):
        pass  # the engine connects to us: nothing to see until it does
    elif not await _listens(source.endpoint, patience):
        faults.append(f"KV events: nothing listens at {source.endpoint}")
    if source.replay_endpoint is None:
        faults.append("no replay endpoint: a gap, or a restart of the gateway, forgets what is cached")
    elif not await _replays(source.replay_endpoint, patience):
        faults.append(f"replay: no answer from {source.replay_endpoint}")
    return faults


async def _listens(endpoint: str, patience: float) -> bool:
    address = urlsplit(endpoint)
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address.hostname, address.port), patience)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _replays(endpoint: str, patience: float) -> bool:
    """Ask for what comes after the last message that can be: the answer is the end marker alone."""
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IPV6, 1)
        socket.connect(endpoint)
        await socket.send_multipart([b"", _NOTHING_IS_AFTER])
        return bool(await socket.poll(int(patience * 1000)))
