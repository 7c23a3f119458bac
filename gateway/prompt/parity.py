"""The check that a replica makes the same tokens of a prompt as the reader does."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import httpx

from gateway.prompt.reader import PromptReader
from gateway.prompt.result import EncodedPrompts


class Outcome(StrEnum):
    """How one shape of prompt compared."""

    EQUAL = "equal"
    """the same tokens, or refused by both"""
    DIFFERENT = "different"
    """predictions for such prompts would be wrong"""
    UNSCORED = "unscored"
    """the reader makes no prediction for such prompts"""
    UNAVAILABLE = "unavailable"
    """the replica did not answer the question"""


@dataclass(frozen=True, slots=True)
class Parity:
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
        if not isinstance(ours, EncodedPrompts):
            return Parity(shape, Outcome.EQUAL if theirs is None else Outcome.UNSCORED)
        if theirs is None:
            return Parity(shape, Outcome.DIFFERENT)
        return _compared(shape, ours.prompts[0], theirs)


def _compared(shape: str, ours: Sequence[int], theirs: Sequence[int]) -> Parity:
    for position in range(max(len(ours), len(theirs))):
        one = ours[position] if position < len(ours) else None
        other = theirs[position] if position < len(theirs) else None
        if one != other:
            return Parity(shape, Outcome.DIFFERENT, position, one, other)
    return Parity(shape, Outcome.EQUAL)
