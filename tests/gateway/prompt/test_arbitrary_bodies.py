"""Whatever JSON a client sends, the reader gives tokens or a reason."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.prompt.reader import PromptReader
from gateway.prompt.result import EncodedPrompts, Unscored

FIELDS = (
    *("messages", "prompt", "input", "system", "tools", "tool_choice", "tool_calls", "function", "arguments", "name"),
    *("role", "content", "type", "text", "id", "call_id", "output", "summary", "reasoning", "reasoning_effort", "uuid"),
    *("truncate_prompt_tokens", "truncation_side", "truncation", "add_special_tokens", "cache_salt", "documents"),
    *(
        "chat_template_kwargs",
        "continue_final_message",
        "add_generation_prompt",
        "kv_transfer_params",
        "echo",
        "thinking",
    ),
    *("query", "queries", "documents", "text_1", "text_2", "instruction", "max_tokens_per_doc", "task", "padding"),
    *("input_schema", "parameters", "image_url", "status", "output_config", "effort", "strict", "defer_loading"),
)
GENERATING = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/tokenize")
POOLING = ("/v1/embeddings", "/pooling", "/classify", "/score", "/rerank")
WORDS = (
    *(
        "user",
        "assistant",
        "system",
        "developer",
        "tool",
        "text",
        "function",
        "message",
        "function_call",
        "none",
        "auto",
    ),
    *(
        "function_call_output",
        "input_text",
        "output_text",
        "image_url",
        "tool_use",
        "tool_result",
        "thinking",
        "\ud800",
    ),
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=24,
)
bodies = st.dictionaries(st.sampled_from(FIELDS), values, max_size=8)
turns = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(WORDS[:5]), "content": values}, optional={"tool_calls": values}),
    max_size=4,
)


@pytest.mark.parametrize(
    ("endpoints", "readers"),
    [(GENERATING, ("text", "parts", "named")), (POOLING, ("embedding", "separated", "judging"))],
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(body=bodies, messages=st.none() | turns)
def test_no_body_is_too_much(
    endpoints: Sequence[str],
    readers: Sequence[str],
    body: dict[str, Any],
    messages: Any,
    recorded_readers: Mapping[str, PromptReader],
) -> None:
    if messages is not None:
        body |= {"messages": messages, "input": messages}
    # To make a body up takes longer than to read it: each is sent everywhere.
    for endpoint, name in product(endpoints, readers):
        assert isinstance(recorded_readers[name].read(endpoint, body), EncodedPrompts | Unscored), endpoint


@pytest.mark.parametrize("endpoint", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_deeply_nested_json_is_no_harm(endpoint: str, recorded_readers: Mapping[str, PromptReader]) -> None:
    nested = json.loads("[" * 900 + "]" * 900)
    turn = {
        "role": "assistant",
        "content": "a",
        "tool_calls": [{"function": {"name": "f", "arguments": {"a": nested}}}],
    }
    for body in ({"messages": [turn], "input": [turn]}, {"messages": nested, "input": nested}):
        assert isinstance(recorded_readers["text"].read(endpoint, body), EncodedPrompts | Unscored)
