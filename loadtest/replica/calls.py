"""Request bodies of the OpenAI API -> what to generate, refusing what vLLM refuses."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import jinja2

from loadtest.replica.text import Text

DEFAULT_COMPLETION_LIMIT = 16
TOKEN_ID_LIMIT = 2**32


class Kind(Enum):
    CHAT = "chat"
    COMPLETION = "completion"


ID_PREFIX = {Kind.CHAT: "chatcmpl", Kind.COMPLETION: "cmpl"}


class Refusal(Exception):
    """An answer that is an error, in vLLM's form."""

    def __init__(self, status: int, type: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": type, "param": param, "code": status}}


def bad_request(message: str, param: str | None = None) -> Refusal:
    return Refusal(400, "BadRequestError", message, param)


@dataclass(frozen=True, slots=True)
class Model:
    """What a replica serves."""

    name: str
    max_length: int
    """tokens of prompt and output together"""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the API, understood."""

    id: str
    """the answer's id, with the prefix that vLLM gives it"""
    kind: Kind
    prompts: Sequence[Sequence[int]]
    limit: int
    """output tokens per choice at most"""
    choices: int
    """per prompt"""
    ignore_end: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    return_token_ids: bool
    salt: str | None
    session: str | None
    tool: str | None
    """the function that the caller requires to be called"""
    tool_named: bool
    """whether the caller chose it, rather than any"""


_TYPES = {"kv_transfer_params": dict, "stream_options": dict, "chat_template_kwargs": dict, "cache_salt": str}


def read(body: bytes) -> Mapping[str, Any]:
    """The JSON object of a body. Raises Refusal."""
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise bad_request(f"Invalid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise bad_request("The body must be a JSON object")
    return fields


def understand(kind: Kind, fields: Mapping[str, Any], headers: Mapping[str, str], model: Model, text: Text) -> Call:
    """headers: names in lower case, or a mapping that doesn't mind. Raises Refusal."""
    check_model(fields, model)
    for name, kind_of_value in _TYPES.items():
        if not isinstance(fields.get(name), kind_of_value | None):
            raise bad_request(f"`{name}` is not of its type", name)
    prompts = [_chat_prompt(fields, text)] if kind is Kind.CHAT else _prompts(fields, text)
    longest = max(map(len, prompts))
    if longest >= model.max_length:
        raise bad_request(
            f"This model's maximum context length is {model.max_length} tokens. However, your prompt contains "
            f"{longest} input tokens, which exceeds this limit even without any output tokens. Please reduce the "
            f"length of the input prompt. (parameter=input_tokens, value={longest})",
            "input_tokens",
        )
    room = model.max_length - longest
    asked = fields.get("max_completion_tokens", fields.get("max_tokens"))
    limit = _positive("max_tokens", room if kind is Kind.CHAT else DEFAULT_COMPLETION_LIMIT, asked)
    options = fields.get("stream_options") or {}
    tool, named = _required_tool(fields)
    own_id = headers.get("x-request-id") or uuid.uuid4().hex[:16]
    return Call(
        id=f"{ID_PREFIX[kind]}-{own_id}",
        kind=kind,
        prompts=prompts,
        limit=min(limit, room),
        choices=_positive("n", 1, fields.get("n")),
        ignore_end=bool(fields.get("ignore_eos")),
        stream=bool(fields.get("stream")),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
        return_token_ids=bool(fields.get("return_token_ids")),
        salt=fields.get("cache_salt"),
        session=fields.get("session_id") or headers.get("x-session-id"),
        tool=tool,
        tool_named=named,
    )


def check_model(fields: Mapping[str, Any], model: Model) -> None:
    """Raises Refusal for a model that is not served; none named means the one that is."""
    name = fields.get("model") or model.name
    if name != model.name:
        message = f"The model `{name}` does not exist. Valid aliases: {model.name}."
        raise Refusal(404, "NotFoundError", message, "model")


def chat_tokens(fields: Mapping[str, Any], text: Text) -> list[int]:
    """Token ids of a body with `messages`. Raises Refusal."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("`messages` must be a list with at least one message", "messages")
    try:
        rendered = text.render(
            messages,
            fields.get("tools"),
            generation_prompt=fields.get("add_generation_prompt", True),
            continue_final_message=fields.get("continue_final_message", False),
            **(fields.get("chat_template_kwargs") or {}),
        )
    except (jinja2.TemplateError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise bad_request(f"The messages can't be rendered: {error}", "messages") from error
    return text.encode(rendered)


def _chat_prompt(fields: Mapping[str, Any], text: Text) -> list[int]:
    given = (fields.get("kv_transfer_params") or {}).get("prompt_token_ids")
    if given is None:
        return chat_tokens(fields, text)
    return _token_ids(given, text.size)


def _prompts(fields: Mapping[str, Any], text: Text) -> list[list[int]]:
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        prompt = [prompt]
    if not isinstance(prompt, list) or not prompt:
        raise bad_request(
            "`prompt` must be a string, a list of strings, token ids, or a list of token id lists", "prompt"
        )
    if isinstance(prompt[0], int):
        prompt = [prompt]
    return [text.encode(one) if isinstance(one, str) and one else _token_ids(one, TOKEN_ID_LIMIT) for one in prompt]


def _token_ids(tokens: object, limit: int) -> list[int]:
    if not isinstance(tokens, list) or not tokens:
        raise bad_request("The prompt is empty", "prompt")
    if not all(isinstance(token, int) and 0 <= token < limit for token in tokens):
        raise bad_request("The prompt has token ids outside of the vocabulary", "prompt")
    return tokens


def _positive(name: str, default: int, value: object) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or value < 1:
        raise bad_request(f"{name} must be at least 1, got {value}.", name)
    return value


def _required_tool(fields: Mapping[str, Any]) -> tuple[str | None, bool]:
    choice = fields.get("tool_choice")
    tools = fields.get("tools") or []
    if isinstance(choice, dict):
        return choice["function"]["name"], True
    if choice == "required" and tools:
        return tools[0]["function"]["name"], False
    return None, False
