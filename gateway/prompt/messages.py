"""A request's messages -> the conversation that a chat template sees, normalised as vLLM does it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.prompt.parts import BILLING_HEADER, parse_parts, without_billing_header
from gateway.prompt.result import CannotScore, Reason
from gateway.prompt.template import ContentFormat

Message = dict[str, Any]

_CALL_KEYS = ("id", "function", "type")
_FUNCTION_KEYS = ("arguments", "name")
_TOOL_KEYS = ("function", "type")
_DEFINITION_KEYS = ("name", "description", "parameters", "strict")


def conversation(messages: object, form: ContentFormat) -> list[Message]:
    """Normalise a request's `messages`. The request is not changed.

    Raises CannotScore for what the engine would refuse or convert.
    """
    if not isinstance(messages, list):
        raise CannotScore(Reason.MALFORMED)
    return [_message(message, form) for message in messages]


def as_validated(messages: object) -> object:
    """A chat request's `messages` with the fields of tool calls and of a developer's tools in the engine's own order.

    Its validation leaves them so, and templates show it by `tojson`. What isn't valid is left as it is.
    """
    if not isinstance(messages, list):
        return messages
    return [_validated(message) if isinstance(message, dict) else message for message in messages]


def with_reasoning_renamed(messages: object) -> object:
    """Messages with `reasoning_content` under its newer name, `reasoning`, as the chat route alone does it."""
    if not isinstance(messages, list):
        return messages
    return [
        {**message, "reasoning": message["reasoning_content"]}
        if isinstance(message, dict) and "reasoning_content" in message and message.get("reasoning") is None
        else message
        for message in messages
    ]


def for_template_without_developer(messages: Sequence[Message]) -> Sequence[Message]:
    """Developer messages as system messages; if any is not the first message, all of them merged into the first."""
    if not any(message["role"] == "developer" for message in messages):
        return messages
    renamed = [_as_system(message) if message["role"] == "developer" else message for message in messages]
    places = [place for place, message in enumerate(renamed) if message["role"] == "system"]
    if places == [0]:
        return renamed
    texts = [text for place in places if (text := _text_of(renamed[place].get("content")))]
    rest = [message for message in renamed if message["role"] != "system"]
    return [{"role": "system", "content": "\n\n".join(texts)}, *rest]


def _message(message: object, form: ContentFormat) -> Message:
    if not isinstance(message, dict) or not isinstance(role := message.get("role"), str):
        raise CannotScore(Reason.MALFORMED)
    parsed = _content(message.get("content"), role, form)
    result: Message = {"role": role, "content": parsed}
    if role == "assistant":
        _add_assistant_fields(result, message)
    elif role == "tool":
        if "tool_call_id" in message:
            result["tool_call_id"] = message["tool_call_id"]
        # Clients send tool results as lists of text parts, and templates want text whatever they do elsewhere.
        if isinstance(parsed, list) and all(part["type"] == "text" for part in parsed):
            result["content"] = "\n".join(part["text"] for part in parsed)
    for name in ("name", "task"):
        if isinstance(value := message.get(name), str):
            result[name] = value
    if role == "developer":
        result["tools"] = message.get("tools")
    return result


def _content(content: object, role: str, form: ContentFormat) -> Any:
    """As templates get it; most often it is a plain text."""
    if isinstance(content, str) and not (role == "system" and content.startswith(BILLING_HEADER)):
        return content if form == "string" else [{"type": "text", "text": content}]
    parts: Iterable[object]
    if content is None:
        parts = ()
    elif isinstance(content, str):
        parts = ({"type": "text", "text": content},)
    elif isinstance(content, list):
        parts = content
    else:
        raise CannotScore(Reason.MALFORMED)
    return parse_parts(without_billing_header(parts) if role == "system" else parts, form)


def _add_assistant_fields(result: Message, message: Mapping[str, Any]) -> None:
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise CannotScore(Reason.MALFORMED)
    if calls:
        result["tool_calls"] = [_tool_call(call) for call in calls]
    if (reasoning := message.get("reasoning")) is not None:
        result["reasoning"] = result["reasoning_content"] = reasoning


def _tool_call(call: object) -> Message:
    if not isinstance(call, Mapping) or call.get("type", "function") != "function":
        raise CannotScore(Reason.REFUSED)
    function = call.get("function")
    if not isinstance(function, Mapping):
        raise CannotScore(Reason.REFUSED)
    return {**call, "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _arguments(value: object) -> Mapping[str, Any]:
    """Arguments as templates want them: an object; what isn't one becomes an empty one."""
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}


def _validated(message: Mapping[str, Any]) -> Mapping[str, Any]:
    calls, tools = message.get("tool_calls"), message.get("tools")
    if isinstance(calls, list) and all(_has_function(call) for call in calls):
        ordered = [
            _ordered(call, _CALL_KEYS) | {"function": _ordered(call["function"], _FUNCTION_KEYS)} for call in calls
        ]
        message = {**message, "tool_calls": ordered}
    if message.get("role") == "developer" and isinstance(tools, list) and all(_is_valid_tool(tool) for tool in tools):
        ordered = [
            _ordered(tool, _TOOL_KEYS) | {"function": _ordered(tool["function"], _DEFINITION_KEYS)} for tool in tools
        ]
        message = {**message, "tools": ordered}
    return message


def _has_function(call: object) -> bool:
    return isinstance(call, Mapping) and isinstance(call.get("function"), Mapping)


def _is_valid_tool(tool: Any) -> bool:
    if not _has_function(tool):
        return False
    function = tool["function"]
    return (
        tool.get("type") == "function"
        and isinstance(function.get("name"), str)
        and isinstance(function.get("description", ""), str)
        and isinstance(function.get("parameters", {}), Mapping)
        and isinstance(function.get("strict"), bool | None)
    )


def _ordered(mapping: Mapping[str, Any], first: Iterable[str]) -> Message:
    """The fields in `first`, in that order, then the others."""
    known = {name: mapping[name] for name in first if name in mapping}
    return known | {name: value for name, value in mapping.items() if name not in known}


def _as_system(message: Message) -> Message:
    return {name: "system" if name == "role" else value for name, value in message.items() if name != "tools"}


def _text_of(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if "text" in part)
    return content if isinstance(content, str) else ""
