"""An Anthropic Messages request -> the chat request that vLLM makes of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.prompt import fields
from gateway.prompt.parts import BILLING_HEADER
from gateway.prompt.result import CannotScore, Reason

Body = dict[str, Any]

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_SILENT_BLOCKS = frozenset({"redacted_thinking", "tool_reference"})


def chat_request(body: Mapping[str, Any], *, system_first: bool, effort_when_disabled: str) -> Body:
    """The fields of the chat request that make its prompt; `tools` in that API's form.

    system_first: whether system messages between turns must be merged into the first (the template's need).
    effort_when_disabled: the reasoning effort that stands for thinking switched off.
    Raises CannotScore.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(_is_message(message) for message in messages):
        raise CannotScore(Reason.MALFORMED)
    turns: list[Body] = []
    top = body.get("system")
    # The attribution is looked for in blocks and in messages, not in a system prompt that is one text.
    system = [top] if isinstance(top, str) and top else list(_system_texts(top or []))
    for message in messages:
        if message["role"] != "system":
            turns += _converted(message["role"], message["content"])
        elif text := "".join(_system_texts(message["content"])):
            if system_first:
                system.append(text)
            else:
                turns.append({"role": "system", "content": text})
    leading = [{"role": "system", "content": "".join(system)}] if system else []
    return {
        "messages": [*leading, *turns],
        "tools": _tools(body.get("tools")),
        "tool_choice": "none" if fields.mapping(body, "tool_choice").get("type") == "none" else None,
        "reasoning_effort": _effort(body, effort_when_disabled),
        "chat_template_kwargs": body.get("chat_template_kwargs"),
    }


def _is_message(message: object) -> bool:
    return (
        isinstance(message, Mapping)
        and message.get("role") in ("user", "assistant", "system")
        and isinstance(message.get("content"), str | list)
    )


def _system_texts(content: object) -> Iterator[str]:
    """The texts of a system prompt, without Claude Code's attribution, which changes with every request."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for block in _blocks(content):
        if block["type"] in ("tool_addition", "tool_removal"):
            raise CannotScore(Reason.CONVERSION)
        if block["type"] == "text" and (text := fields.text(block, "text")) and not text.startswith(BILLING_HEADER):
            yield text


def _converted(role: str, content: str | list[Any]) -> Iterator[Body]:
    """One turn as chat messages: tool results come before what else the user says with them."""
    message: Body = {"role": role}
    if isinstance(content, str):
        message["content"] = content
        yield message
        return
    parts: list[Body] = []
    calls: list[Body] = []
    thoughts: list[str] = []
    for block in _blocks(content):
        kind = block["type"]
        if kind == "text":
            if text := fields.text(block, "text"):
                parts.append({"type": "text", "text": text})
        elif kind == "image":
            parts.append({"type": "image_url", "image_url": {"url": ""}})
        elif kind == "thinking":
            thoughts += [thought] if (thought := fields.text(block, "thinking")) is not None else []
        elif kind == "tool_use":
            calls.append(_call(block))
        elif kind == "tool_result" and role == "user":
            yield from _result(block)
        elif kind == "tool_result":
            parts.append({"type": "text", "text": f"Tool result: {block.get('content') or ''}"})
        elif kind not in _SILENT_BLOCKS:
            raise CannotScore(Reason.REFUSED)
    if thoughts:
        message["reasoning"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    if len(parts) == 1 and parts[0]["type"] == "text":
        message["content"] = parts[0]["text"]
    elif parts:
        message["content"] = parts
    if role != "user" or "content" in message:
        yield message


def _blocks(content: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(content, list):
        raise CannotScore(Reason.MALFORMED)
    for block in content:
        if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
            raise CannotScore(Reason.MALFORMED)
    return content


def _call(block: Mapping[str, Any]) -> Body:
    # An id that the client left out is made from the clock, and some templates show it.
    if not isinstance(identity := block.get("id"), str) or not identity:
        raise CannotScore(Reason.CONVERSION)
    function = {"name": fields.text(block, "name") or "", "arguments": fields.mapping(block, "input")}
    return {"id": identity, "type": "function", "function": function}


def _result(block: Mapping[str, Any]) -> Iterator[Body]:
    identity = fields.text(block, "tool_use_id") or ""
    content = block.get("content")
    texts: list[str] = []
    images = 0
    references: list[Body] = []
    for item in content if isinstance(content, list) else ():
        kind = item.get("type") if isinstance(item, Mapping) else None
        if kind == "text":
            texts.append(fields.text(item, "text") or "")
        elif kind == "image":
            images += 1
        elif kind == "tool_reference" and (name := item.get("tool_name") or item.get("name")):
            references.append({"type": "tool_reference", "name": name})
    text = content if isinstance(content, str) else "\n".join(texts)
    yield {"role": "tool", "tool_call_id": identity, "content": text}
    if images:
        yield {"role": "user", "content": [{"type": "image_url", "image_url": {"url": ""}}] * images}
    if references:
        yield {"role": "tool", "tool_call_id": identity, "content": references}


def _tools(tools: object) -> list[Body] | None:
    if tools is None:
        return None
    if not isinstance(tools, list):
        raise CannotScore(Reason.MALFORMED)
    return [_tool(tool) for tool in tools]


def _tool(tool: object) -> Body:
    if not isinstance(tool, Mapping) or not isinstance(schema := tool.get("input_schema"), Mapping):
        raise CannotScore(Reason.MALFORMED)
    function = {name: tool.get(name) for name in ("name", "description", "strict", "defer_loading")}
    parameters = schema if "type" in schema else {**schema, "type": "object"}
    return {"type": "function", "function": function | {"parameters": parameters}}


def _effort(body: Mapping[str, Any], effort_when_disabled: str) -> str | None:
    if fields.mapping(body, "thinking").get("type") == "disabled":
        return effort_when_disabled
    effort = fields.text(fields.mapping(body, "output_config"), "effort")
    if effort is not None and effort not in _EFFORTS:
        raise CannotScore(Reason.REFUSED)
    return effort
