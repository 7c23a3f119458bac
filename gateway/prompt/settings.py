"""How a model is served, as far as it changes its prompts: vLLM's command-line options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from routing.fleet import Task


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """Must say what the replicas were started with; the parity check finds out where it doesn't."""

    chat_template: str | None = None
    """`--chat-template`: the template's text, or the name of one of the tokenizer's; None for the tokenizer's own"""
    content_format: Literal["auto", "string", "openai"] = "auto"
    """`--chat-template-content-format`"""
    default_template_arguments: Mapping[str, Any] = field(default_factory=dict)
    """`--default-chat-template-kwargs`"""
    trust_request_template: bool = False
    """`--trust-request-chat-template`"""
    exclude_tools_when_choice_none: bool = False
    """`--exclude-tools-when-tool-choice-none`"""
    disabled_thinking_effort: Literal["auto", "none", "low", "medium", "high", "xhigh", "max"] = "auto"
    """`--anthropic-disabled-thinking-effort`"""
    use_sep_token: bool | None = None
    """whether a classifier's pairs of texts are kept apart by the tokenizer's special tokens (`use_sep_token` of
    `--hf-overrides`), or joined; None for what the model's own configuration says"""
    task: Task | None = None
    """what the replicas say that the model does; None if not known"""
    max_model_len: int | None = None
    """`--max-model-len` in tokens, for requests that are cut to it; None if not known"""
