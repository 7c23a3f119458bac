"""The hit ratio that one endless cache would have had for requests that were played."""

from collections.abc import Sequence

import httpx

from loadtest.bounds import Lookup, infinite
from loadtest.play import Exchange


async def ideal_hit_ratio(client: httpx.AsyncClient, exchanges: Sequence[Exchange], block_size: int) -> float:
    """Share of prompt tokens, 0-1, with every request served from one cache that never evicts, in order of sending.

    client: its base URL is a replica, whose `/tokenize` says what it would prefill. Raises httpx.HTTPError.
    """
    lookups = [await _lookup(client, exchange, block_size) for exchange in sorted(exchanges, key=lambda one: one.sent)]
    return infinite(lookups, block_size)


async def _lookup(client: httpx.AsyncClient, exchange: Exchange, block_size: int) -> Lookup:
    reply = {"role": "assistant", "content": exchange.text}
    body = {"messages": [*exchange.messages, reply], "add_generation_prompt": False}
    tokens = (await client.post("/tokenize", json=body)).raise_for_status().json()["tokens"]
    # The last token of a prompt is always computed; the last one sampled never is, so it is never cached.
    wanted, kept = exchange.prompt_tokens - 1, exchange.prompt_tokens + exchange.output_tokens - 1
    blocks = _blocks(tokens[:kept], block_size)
    return Lookup(exchange.prompt_tokens, wanted=blocks[: wanted // block_size], kept=blocks)


def _blocks(tokens: Sequence[int], block_size: int) -> list[int]:
    """A name for each full block and all before it, by Python's own hash."""
    names: list[int] = []
    parent = 0
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = hash((parent, *tokens[start : start + block_size]))
        names.append(parent)
    return names
