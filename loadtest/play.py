"""Plays conversations against an OpenAI-compatible server and measures what a client sees."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from loadtest.workload import Conversation

CONNECTIONS = 512
READ_TIMEOUT_SECONDS = 60.0
_DATA = "data: "


class PlayFailed(Exception):
    """A request was not answered as it should be. The message says how."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer."""

    messages: Sequence[dict[str, str]]
    """as they were sent"""
    sent: float
    """when, on the clock of `time.perf_counter`"""
    ttft: float
    """seconds from sending to the first piece of text"""
    seconds: float
    """from sending to the end"""
    prompt_tokens: int
    cached_tokens: int
    """as the replica reports them"""
    output_tokens: int
    text: str


async def play(
    url: str, model: str, conversations: Sequence[Conversation], reply_tokens: int, answered: Callable[[], None]
) -> list[Exchange]:
    """Play all conversations to their end, each turn once the one before it was answered.

    url: of the server, without `/v1`. reply_tokens: how long each answer is. answered: called after each exchange.
    Raises PlayFailed at the first request that fails.
    """
    start = time.perf_counter()
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    exchanges: list[Exchange] = []

    async def converse(client: httpx.AsyncClient, conversation: Conversation) -> None:
        await asyncio.sleep(start + conversation.begins - time.perf_counter())
        messages = [{"role": "system", "content": conversation.system}]
        for pause, question in zip((0.0, *conversation.pauses), conversation.questions, strict=True):
            await asyncio.sleep(pause)
            messages.append({"role": "user", "content": question})
            exchange = await ask(client, model, messages, reply_tokens)
            messages.append({"role": "assistant", "content": exchange.text})
            exchanges.append(exchange)
            answered()

    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=READ_TIMEOUT_SECONDS) as client:
        try:
            async with asyncio.TaskGroup() as group:
                for conversation in conversations:
                    group.create_task(converse(client, conversation))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
    return exchanges


async def ask(client: httpx.AsyncClient, model: str, messages: Sequence[dict[str, str]], reply_tokens: int) -> Exchange:
    """One streamed chat completion. Raises PlayFailed."""
    body = {
        "model": model,
        "messages": messages,
        "max_tokens": reply_tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    pieces: list[str] = []
    usage = None
    first = None
    sent = time.perf_counter()
    try:
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != httpx.codes.OK:
                raise PlayFailed(f"HTTP {response.status_code}: {(await response.aread()).decode(errors='replace')}")
            async for line in response.aiter_lines():
                if not line.startswith(_DATA + "{"):
                    continue
                chunk = json.loads(line.removeprefix(_DATA))
                if "error" in chunk:
                    raise PlayFailed(f"an error within the stream: {chunk['error']}")
                usage = chunk.get("usage") or usage
                for choice in chunk["choices"]:
                    piece = choice["delta"].get("content")
                    if piece:
                        first = first or time.perf_counter()
                        pieces.append(piece)
    except httpx.HTTPError as error:
        raise PlayFailed(f"{type(error).__name__}: {error}") from error
    if first is None or usage is None:
        raise PlayFailed("the stream ended without text or without usage")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Exchange(
        messages=tuple(messages),
        sent=sent,
        ttft=first - sent,
        seconds=time.perf_counter() - sent,
        prompt_tokens=usage["prompt_tokens"],
        cached_tokens=cached,
        output_tokens=usage["completion_tokens"],
        text="".join(pieces),
    )
