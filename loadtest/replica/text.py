"""Messages -> prompt text -> token ids, and back, as vLLM does it for this tokenizer."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import fastokens
from jinja2 import Environment

TOKENIZER = Path(__file__).parent / "tokenizer"
RECENT = 16
"""texts whose token ids are kept"""
_FIRST_WORD = re.compile(r"[A-Z][a-z]+")
_WORD = re.compile(r" [a-z]+")
_END_OF_TEXT = "END_OF_THE_LAST_MESSAGES_TEXT"

Json = Mapping[str, Any]


class Text:
    """A tokenizer and its chat template. Read-only, so several replicas share one.

    Not by `transformers`, though equal to what that makes of these files: it takes two seconds to import. Nor by the
    gateway's renderer, which is checked against this one.
    """

    def __init__(self, path: Path = TOKENIZER) -> None:
        """path: a folder with tokenizer.json and tokenizer_config.json, byte-level, with ChatML's end token."""
        self.path = path
        config = json.loads((path / "tokenizer_config.json").read_text())
        self._template = _environment().from_string(config["chat_template"])
        self._tokenizer = fastokens.Tokenizer.from_file(str(path / "tokenizer.json"))
        # Real replicas have a machine each: one prompt that several are asked to render costs this one process once.
        self._ids = lru_cache(RECENT)(self._tokenized)
        self.size: int = self._tokenizer.vocab_size
        """token ids are below this"""
        self.end: int = self._tokenizer.token_to_id(config["eos_token"])
        self._pieces: list[str] = [self.decode([token]) for token in range(self.size)]
        words = [token for token in range(self.size) if self.encode(self._pieces[token]) == [token]]
        self.words = [token for token in words if _WORD.fullmatch(self._pieces[token])]
        """tokens that are one word with its leading space, in any context"""
        self.first_words = [token for token in words if _FIRST_WORD.fullmatch(self._pieces[token])]
        """tokens that are one capitalised word"""

    def encode(self, text: str) -> list[int]:
        """Text as it stands; special tokens in it count as such, none are added."""
        return list(self._ids(text))

    def _tokenized(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    def piece(self, token: int) -> str:
        """The text that one output token adds; nothing for the end token."""
        return "" if token == self.end else self._pieces[token]

    def render(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] | None,
        *,
        generation_prompt: bool = True,
        continue_final_message: bool = False,
        **options: Any,
    ) -> str:
        """The prompt of a chat, with vLLM's normalisations before the template.

        continue_final_message: it ends where the last message's text does. options: further variables for the template.
        Raises jinja2.TemplateError if the template refuses the messages, ValueError for both kinds of end.
        """
        chat = _without_developer([_message(message) for message in messages])
        if continue_final_message:
            if generation_prompt:
                raise ValueError("continue_final_message and add_generation_prompt exclude each other")
            chat[-1] = {**chat[-1], "content": chat[-1]["content"] + _END_OF_TEXT}
        rendered = self._template.render(
            messages=chat,
            tools=[_tool(tool) for tool in tools] if tools else None,
            add_generation_prompt=generation_prompt,
            **options,
        )
        return rendered.partition(_END_OF_TEXT)[0] if continue_final_message else rendered


def _environment() -> Environment:
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    # Jinja's own filter would escape HTML and sort the keys.
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment


def _without_developer(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A template without that role gets what developers and systems say as one system message, first."""
    if all(message["role"] != "developer" for message in messages):
        return messages
    instructions = [message for message in messages if message["role"] in ("developer", "system")]
    others = [message for message in messages if message not in instructions]
    return [{"role": "system", "content": "\n\n".join(message["content"] for message in instructions)}, *others]


def _message(message: Json) -> dict[str, Any]:
    """Content parts become text; arguments of tool calls become objects."""
    normal = dict(message)
    normal["content"] = _content(message.get("content"))
    calls = normal.pop("tool_calls", None)
    if calls:
        normal["tool_calls"] = [{**call, "function": _called(call["function"])} for call in calls]
    return normal


def _content(content: str | Sequence[Json] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def _called(function: Json) -> dict[str, Any]:
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except json.JSONDecodeError:
            arguments = {}
    return {**function, "arguments": arguments if isinstance(arguments, dict) else {}}


def _tool(tool: Json) -> dict[str, Any]:
    """Only the fields that vLLM's model of a tool has survive, absent ones as null."""
    function = tool["function"]
    known = {name: function.get(name) for name in ("name", "description", "parameters")}
    if function.get("strict") is not None:
        known["strict"] = function["strict"]
    return {"type": "function", "function": known}
