"""A chat or completion request as requests to vLLM's `/tokenize`, which knows fewer fields."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.prompt import fields
from gateway.prompt.messages import with_reasoning_renamed
from gateway.prompt.result import CannotScore, Reason

_CHAT_FIELDS = (
    *("model", "messages", "tools", "add_generation_prompt", "continue_final_message", "add_special_tokens"),
    *("chat_template", "chat_template_kwargs"),
)


def tokenize_requests(endpoint: str, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any] | Sequence[int]]:
    """One request body for each prompt, or token ids where they are given.

    Raises CannotScore for what `/tokenize` can't express.
    """
    if body.get("truncate_prompt_tokens") is not None:
        raise CannotScore(Reason.TRUNCATION)
    if endpoint == "/v1/chat/completions":
        yield _chat(body)
    elif endpoint == "/v1/completions":
        yield from _completion(body)
    else:
        raise CannotScore(Reason.REMOTE)


def _chat(body: Mapping[str, Any]) -> Mapping[str, Any]:
    if body.get("tools") and body.get("tool_choice") == "none":
        # Whether the template sees the tools depends on how the replica was started.
        raise CannotScore(Reason.REMOTE)
    request = {name: body[name] for name in _CHAT_FIELDS if name in body}
    request["messages"] = with_reasoning_renamed(body.get("messages"))
    given = fields.mapping(body, "chat_template_kwargs")
    effort = fields.text(body, "reasoning_effort")
    asked: dict[str, Any] = {"documents": body.get("documents"), "reasoning_effort": effort}
    if effort is not None and "enable_thinking" not in given:
        asked["enable_thinking"] = effort != "none"
    arguments = fields.override(given, asked)
    return request | {"chat_template_kwargs": arguments} if arguments else request


def _completion(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any] | Sequence[int]]:
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        prompt = [prompt]
    if not isinstance(prompt, list) or not prompt or body.get("suffix") is not None:
        raise CannotScore(Reason.MALFORMED)
    if all(type(item) is int for item in prompt):
        prompt = [prompt]
    for item in prompt:
        if isinstance(item, str):
            request = {"prompt": item, "add_special_tokens": fields.flag(body, "add_special_tokens", True)}
            yield request if "model" not in body else request | {"model": body["model"]}
        elif isinstance(item, list):
            yield item
        else:
            raise CannotScore(Reason.MALFORMED)
