"""The check that a replica makes the same tokens of a prompt as the reader does."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import httpx

from gateway.prompt.reader import PromptReader
from gateway.prompt.result import EncodedPrompts
from routing.fleet import Replica


class Outcome(StrEnum):
    """How one shape of prompt compared."""

    EQUAL = "equal"
    """the same tokens, or refused by both"""
    DIFFERENT = "different"
    """predictions for such prompts would be wrong, or there would be none"""
    UNAVAILABLE = "unavailable"
    """the replica did not answer the question"""


class Parity(NamedTuple):
    """One shape's result."""

    shape: str
    outcome: Outcome
    position: int | None = None
    """of the first token that differs"""
    ours: int | None = None
    """token id there; None past the end"""
    theirs: int | None = None


_WEATHER = {
    "name": "get_weather",
    "description": "Look up <today's> weather & wind",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Kraków"]}}},
}
_TOOLS = [{"type": "function", "function": _WEATHER}]
_ASK = {"role": "user", "content": "What's the weather in Kraków, 1\u00a0day ahead?\n\n- 你好 🙂"}
_CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Kraków"}'}}
_RESULT = {"role": "tool", "tool_call_id": "call_1", "content": '{"sky": "clear", "°C": 21.5}'}
_TURNS = [{"role": "system", "content": "Be brief."}, _ASK, {"role": "assistant", "content": "Clear."}, _ASK]
_REASONED = {"role": "assistant", "content": "Clear.", "reasoning": "It is June."}

SHAPES: Mapping[str, Mapping[str, Any]] = {
    "text": {"prompt": "Once upon a time,\n\tthere were 3 naïve  foxes. 你好"},
    "plain": {"messages": [_ASK]},
    "turns": {"messages": _TURNS},
    "salt": {"messages": [_ASK], "cache_salt": "canary"},
    "parts": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]}]
    },
    "developer": {"messages": [{"role": "developer", "content": "Be brief."}, _ASK]},
    "tools": {"messages": [_ASK], "tools": _TOOLS},
    "tool_result": {
        "messages": [_ASK, {"role": "assistant", "content": None, "tool_calls": [_CALL]}, _RESULT],
        "tools": _TOOLS,
    },
    "reasoning": {"messages": [_ASK, _REASONED, _ASK]},
    "reasoned_tool_call": {"messages": [_ASK, {**_REASONED, "tool_calls": [_CALL]}, _RESULT], "tools": _TOOLS},
    "thinking_off": {
        "messages": [_ASK],
        "chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "none"},
    },
    "effort": {"messages": [_ASK], "chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "low"}},
}
"""fixed requests to `/tokenize`, by the name of what they try"""


class ParityCheck:
    """Compares a reader with replicas."""

    def __init__(self, client: httpx.AsyncClient, *, deadline: float = 5.0) -> None:
        """deadline: seconds for each answer."""
        self._client = client
        self._deadline = deadline

    async def all(self, replica: Replica, reader: PromptReader) -> list[Parity]:
        """As `run`, of what it serves: the base model, and one of its adapters, with shapes called `adapter_...`."""
        results = await self.run(replica.url, replica.base.id, reader)
        adapter = next((card.id for card in replica.cards if card.parent), None)
        if adapter is not None:
            adapted = await self.run(replica.url, adapter, reader)
            results += [result._replace(shape=f"adapter_{result.shape}") for result in adapted]
        return results

    async def run(self, replica: str, model: str, reader: PromptReader) -> list[Parity]:
        """One result for each of SHAPES, in that order.

        replica: its URL, without a path. model: the name of a base model or adapter that it serves.
        """
        return [await self._compare(replica, model, reader, shape, body) for shape, body in SHAPES.items()]

    async def _compare(
        self, replica: str, model: str, reader: PromptReader, shape: str, body: Mapping[str, Any]
    ) -> Parity:
        try:
            async with asyncio.timeout(self._deadline):
                answer = await self._client.post(
                    f"{replica}/tokenize",
                    content=json.dumps({**body, "model": model}).encode(),
                    headers={"content-type": "application/json"},
                    timeout=None,
                )
            theirs = answer.json()["tokens"] if answer.status_code == 200 else None
        except (httpx.HTTPError, TimeoutError, ValueError, LookupError, TypeError):
            return Parity(shape, Outcome.UNAVAILABLE)
        if answer.status_code not in (200, 400):
            return Parity(shape, Outcome.UNAVAILABLE)
        ours = reader.read("/tokenize", body)
        if isinstance(ours, EncodedPrompts) and theirs is not None:
            return _compared(shape, ours.prompts[0], theirs)
        refused_by_both = not isinstance(ours, EncodedPrompts) and theirs is None
        return Parity(shape, Outcome.EQUAL if refused_by_both else Outcome.DIFFERENT)


def _compared(shape: str, ours: Sequence[int], theirs: Sequence[int]) -> Parity:
    for position in range(max(len(ours), len(theirs))):
        one = ours[position] if position < len(ours) else None
        other = theirs[position] if position < len(theirs) else None
        if one != other:
            return Parity(shape, Outcome.DIFFERENT, position, one, other)
    return Parity(shape, Outcome.EQUAL)
