"""What is particular to one model, and how fast engines are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from gateway.config.section import PolicyName, Section


class ModelConfig(Section):
    """What is particular to one model, by any name it is served under."""

    policy: PolicyName | None = None
    pools: tuple[str, ...] = ()
    """only replicas of these pools serve it; all where none is named. Changed, within `probing.describe_interval`"""
    tokenizer: str | None = None
    """path or hub name; the model's own root where absent"""
    chat_template: Path | None = None
    """the file given to vLLM as `--chat-template`"""
    default_chat_template_kwargs: Mapping[str, object] = Field(default_factory=dict)
    """vLLM's `--default-chat-template-kwargs`"""
    chat_template_content_format: Literal["auto", "string", "openai"] = "auto"
    """vLLM's option of that name, as are the next three"""
    trust_request_chat_template: bool = False
    exclude_tools_when_tool_choice_none: bool = False
    anthropic_disabled_thinking_effort: Literal["auto", "none", "low", "medium", "high", "xhigh", "max"] = "auto"
    use_sep_token: bool | None = None
    """`use_sep_token` of vLLM's `--hf-overrides`, for models that score pairs; default: what the model's files say"""
    send_token_ids: bool = False
    """whether the engine gets the gateway's token ids along, which spares it template and tokenizer"""


class CustomProfile(Section):
    """Speed of an engine: `prefill_ms = a + b n + q n (cached + n/2)`, `itl_ms = d + e B + f B ctx`."""

    a: float
    b: float
    q: float
    d: float
    e: float
    f: float
