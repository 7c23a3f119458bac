"""An OpenAI Responses request -> the conversation that vLLM makes of it."""

from collections.abc import Mapping
from typing import Any

from gateway.prompt import fields
from gateway.prompt.result import CannotScore, Reason

Body = dict[str, Any]

_NEVER_SHOWN = frozenset(
    {
        *("web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "file_search"),
        *("code_interpreter", "image_generation", "mcp", "computer_use_preview", "local_shell", "shell", "apply_patch"),
    }
)
"""kinds of tools that the engine leaves out of the prompt"""

_FREE_TEXT = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The freeform text payload for this tool."}},
    "required": ["input"],
    "additionalProperties": False,
}
"""what the engine shows as the parameters of a tool that takes free text"""


def chat_request(body: Mapping[str, Any]) -> Body:
    """The fields of a chat request with the same prompt.

    Raises CannotScore.
    """
    if body.get("prompt") is not None:
        raise CannotScore(Reason.REFUSED)
    if body.get("previous_input_messages") is not None:
        raise CannotScore(Reason.CONVERSION)
    given = body.get("input")
    messages: list[Body] = []
    if instructions := fields.text(body, "instructions"):
        messages.append({"role": "system", "content": instructions})
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
    elif isinstance(given, list):
        turns: list[Body] = []
        for item in given:
            _add(turns, item)
        messages += turns
    else:
        raise CannotScore(Reason.MALFORMED)
    unfinished = isinstance(given, list) and _is_unfinished(given)
    return {
        "messages": messages,
        "tools": _tools(body.get("tools")),
        "tool_choice": body.get("tool_choice"),
        "add_generation_prompt": not unfinished,
        "continue_final_message": unfinished,
        "reasoning_effort": fields.text(fields.mapping(body, "reasoning"), "effort"),
        "chat_template_kwargs": body.get("chat_template_kwargs"),
    }


def _add(turns: list[Body], item: object) -> None:
    """Take one item in: a turn of its own, or more of the assistant's last turn."""
    if not isinstance(item, Mapping):
        raise CannotScore(Reason.MALFORMED)
    kind, role = item.get("type"), item.get("role")
    last = turns[-1] if turns and turns[-1].get("role") == "assistant" else None
    if kind in ("function_call", "custom_tool_call"):
        call = _call(item) if kind == "function_call" else _custom_call(item)
        if last is not None:
            last["tool_calls"] = [*(last.get("tool_calls") or []), call]
        else:
            turns.append({"role": "assistant", "tool_calls": [call]})
    elif kind == "reasoning":
        _add_to_assistant(turns, last, "reasoning", _reasoning(item))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        output = item.get("output")
        turns.append({"role": "tool", "content": output, "tool_call_id": item.get("call_id")})
    elif role == "assistant" and (text := _text(item.get("content"))) is not None:
        _add_to_assistant(turns, last, "content", text)
    elif isinstance(role, str):
        turns.append(dict(item))
    else:
        raise CannotScore(Reason.REFUSED)


def _add_to_assistant(turns: list[Body], last: Body | None, field: str, value: str) -> None:
    if last is not None and last.get(field) is None:
        last[field] = value
    else:
        turns.append({"role": "assistant", field: value})


def _call(item: Mapping[str, Any]) -> Body:
    name, arguments, identity = (item.get(field) for field in ("name", "arguments", "call_id"))
    if not isinstance(name, str) or not isinstance(arguments, str) or not isinstance(identity, str):
        raise CannotScore(Reason.MALFORMED)
    if namespace := fields.text(item, "namespace"):
        name = f"{namespace}__{name}"
    return {"id": identity, "function": {"name": name, "arguments": arguments}, "type": "function"}


def _custom_call(item: Mapping[str, Any]) -> Body:
    """A call with free text, as a function call with that text as its one argument."""
    name, identity = item.get("name"), item.get("call_id")
    if not isinstance(name, str) or not isinstance(identity, str):
        raise CannotScore(Reason.MALFORMED)
    arguments = {"input": fields.text(item, "input") or ""}
    return {"id": identity, "function": {"name": name, "arguments": arguments}, "type": "function"}


def _reasoning(item: Mapping[str, Any]) -> str:
    """The first text of the reasoning, or of its summary: all that the engine takes."""
    if item.get("encrypted_content"):
        raise CannotScore(Reason.REFUSED)
    text = _text(item.get("content"))
    if text is None:
        text = _text(item.get("summary"))
    return text or ""


def _text(content: object) -> str | None:
    """Content as text: of several parts the engine takes the first."""
    if not isinstance(content, list) or not content:
        return content if isinstance(content, str) else None
    if not isinstance(content[0], Mapping):
        raise CannotScore(Reason.MALFORMED)
    return fields.text(content[0], "text")


def _is_unfinished(items: list[Any]) -> bool:
    """Whether the last item is a turn of the assistant's that is to be continued."""
    if not items or not isinstance(last := items[-1], Mapping):
        return False
    return last.get("type", "message") in ("message", "reasoning") and last.get("status") in (
        "in_progress",
        "incomplete",
    )


def _tools(tools: object) -> list[Body] | None:
    """Function tools in the chat API's form; None without any tool at all."""
    if tools is None or tools == []:
        return None
    if not isinstance(tools, list):
        raise CannotScore(Reason.MALFORMED)
    shown = []
    for tool in tools:
        if not isinstance(tool, Mapping) or not isinstance(kind := tool.get("type"), str):
            raise CannotScore(Reason.MALFORMED)
        if kind == "function":
            shown.append({"type": "function", "function": {name: tool[name] for name in tool if name != "type"}})
        elif kind == "custom":
            function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": _FREE_TEXT}
            shown.append({"type": "function", "function": function})
        elif kind not in _NEVER_SHOWN:
            raise CannotScore(Reason.CONVERSION)
    return shown
