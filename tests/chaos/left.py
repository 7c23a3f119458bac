"""What a shared index holds against what its engines account for."""

import asyncio
from collections.abc import Sequence
from typing import cast

from redis.asyncio import Redis

from gateway.redis.names import base
from tests.chaos.children import Child

MODEL = "sim"
WITHIN = 20.0
"""seconds in which what engines left behind is cleared: passes over all blocks are made one after the other"""


async def leaks(url: str, replicas: Sequence[Child]) -> list[str]:
    """What is still there after a while that nobody accounts for, in words."""
    loop = asyncio.get_running_loop()
    end = loop.time() + WITHIN
    async with Redis.from_url(url) as client:
        while True:
            found = await _leaks(client, replicas)
            if not found or loop.time() > end:
                return found
            await asyncio.sleep(0.2)


async def _leaks(client: Redis, replicas: Sequence[Child]) -> list[str]:
    of_model = base("kvgate:", MODEL).encode()
    keys = [cast(bytes, key) for key in await client.keys()]
    engines = {f"{one.url.removeprefix('http://')}/0".encode() for one in replicas}
    each = [b"".join((of_model, kind, name)) for name in engines for kind in (b"e:", b"n:", b"o:", b"c:")]
    whole = [of_model + name for name in (b"slots", b"version", b"changes", b"free", b"next", b"engines")]
    blocks = [key for key in keys if key.startswith(of_model + b"b") and len(key) == len(of_model) + 9]
    strange = set(keys) - {*each, *whole, *blocks, b"kvgate:models", b"kvgate:gateways", b"kvgate:gossip"}
    found = [f"key {key!r}" for key in sorted(strange)]
    if await client.scard((of_model + b"engines").decode()) != len(engines):
        found.append("engines that are not there")
    slots = cast(dict[bytes, bytes], await client.hgetall((of_model + b"slots").decode()))
    if set(slots.values()) != engines:
        found.append(f"slots {slots}")
    taken = sum(3 << 2 * int(slot) for slot in slots)
    held = [int.from_bytes(cast(bytes, one), "little") for one in await client.mget(blocks)] if blocks else []
    if any(mask & ~taken for mask in held):
        found.append("bits of retired slots")
    counted = 0
    for name in engines:
        counts = await client.hmget((of_model + b"e:" + name).decode(), ["gpu", "cpu"])
        counted += sum(int(cast(bytes, count) or 0) for count in counts)
    if sum(mask.bit_count() for mask in held) != counted:
        found.append(f"{sum(mask.bit_count() for mask in held)} bits for {counted} blocks")
    return found
