"""One request for every way in which an endpoint makes a prompt of its body, and some that engines refuse."""

from collections.abc import Mapping
from typing import Any

from tests.engine.prompts import prose, token_ids

Body = Mapping[str, Any]

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
EMBEDDINGS = "/v1/embeddings"
ENDPOINTS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)
"""those that generate; their answers tell how much of a prompt came out of the cache"""
TAKING_IDS = (CHAT, RESPONSES, MESSAGES)
"""those whose engine side takes token ids beside the messages"""

LONG = prose("shapes", 70)
"""over two blocks, so that a prompt with it can be found in a cache"""
_UNICODE = "Wie warm ist es in Kraków?\n\n\t- 你好 🙂👍🏽  <|im_end|> \u00a0?  "
_SYSTEM = {"role": "system", "content": LONG}
_ASK = {"role": "user", "content": "How warm is it in Reykjavík?"}
_OPENING = [_SYSTEM, _ASK]
_PARTS = [{"type": "text", "text": LONG}, {"type": "text", "text": _UNICODE}]
_TWO_TEXTS = [{"type": "text", "text": "12"}, {"type": "text", "text": "31"}]
_PARAMETERS = {
    "type": "object",
    "required": ["place"],
    "properties": {"unit": {"enum": ["C", "F"], "type": "string"}, "place": {"type": "string"}},
}
_WEATHER = {"name": "weather", "description": "Weather at a <place> & time", "parameters": _PARAMETERS}
_TOOLS = [
    {"type": "function", "function": {"parameters": _PARAMETERS, "name": "weather", "strict": True, "unknown": 1}},
    {"function": {"name": "time", "description": None}, "type": "function", "unknown": {"a": None}},
]
_CALLS = [
    {
        "type": "function",
        "id": "call_1",
        "function": {"name": "weather", "arguments": '{"unit": "C",  "place": "Reykjav\\u00edk"}'},
    },
    {"id": "call_2", "type": "function", "function": {"arguments": "", "name": "time"}},
]
_RESULTS = [
    {"role": "tool", "tool_call_id": "call_1", "content": '{"degrees": 4.5, "sky": "cloudy ☁"}'},
    {"role": "tool", "tool_call_id": "call_2", "content": _TWO_TEXTS},
]  # fmt: skip
_CALLED = [*_OPENING, {"role": "assistant", "content": None, "tool_calls": _CALLS}, *_RESULTS]
_ITEMS = [
    {"role": "user", "content": LONG},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Iceland."}]},
    {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"place": "Reykjav\\u00edk"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": '{"degrees": 4.5}'},
]
_FUNCTIONS = [{"type": "function", **_WEATHER, "strict": True}, {"type": "function", "name": "time"}]
_MESSAGES_TOOLS = [
    {"name": "weather", "description": "Weather at a <place>", "input_schema": _PARAMETERS},
    {"input_schema": {"properties": {}}, "name": "time"},
]
_USED = [
    {"role": "user", "content": LONG},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Two tools.", "signature": "s"},
            {"type": "text", "text": "I look it up."},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"unit": "C", "place": "Reykjavík"}},
            {"type": "tool_use", "id": "toolu_2", "name": "time", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Here:"},
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4.5 °C"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": _TWO_TEXTS},
        ],
    },
]  # fmt: skip

_CHATS: Mapping[str, Body] = {
    "one message": {"messages": [{"role": "user", "content": LONG}]},
    "system": {"messages": _OPENING},
    "unicode": {"messages": [_SYSTEM, {"role": "user", "content": _UNICODE}]},
    "parts": {"messages": [{"role": "user", "content": _PARTS}]},
    "system in parts": {"messages": [{"role": "system", "content": _PARTS}, _ASK]},
    "name": {"messages": [_SYSTEM, {**_ASK, "name": "Ann"}]},
    "several turns": {"messages": [*_OPENING, {"role": "assistant", "content": "4.5 °C."}, _ASK]},
    "tools": {"messages": _OPENING, "tools": _TOOLS},
    "tool choice none": {"messages": _OPENING, "tools": _TOOLS, "tool_choice": "none"},
    "calls and results": {"messages": _CALLED, "tools": _TOOLS},
    "calls without tools": {"messages": _CALLED},
    "arguments that are no object": {
        "messages": [
            *_OPENING,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "time", "arguments": "[1"}}],
            },
        ]
    },
    "no calls": {"messages": [*_OPENING, {"role": "assistant", "content": "4.5", "tool_calls": []}, _ASK]},
    "developer": {"messages": [{"role": "developer", "content": LONG}, _ASK]},
    "developer among turns": {"messages": [*_OPENING, {"role": "developer", "content": "In °F."}, _ASK]},
    "reasoning": {"messages": [*_OPENING, {"role": "assistant", "content": "4.5.", "reasoning": "June."}, _ASK]},
    "reasoning_content": {
        "messages": [*_OPENING, {"role": "assistant", "content": "4.5.", "reasoning_content": "June."}, _ASK]
    },
    "effort": {"messages": _OPENING, "reasoning_effort": "low"},
    "effort none": {"messages": _OPENING, "reasoning_effort": "none"},
    "thinking off": {"messages": _OPENING, "chat_template_kwargs": {"enable_thinking": False}},
    "template argument over the server's": {"messages": _OPENING, "chat_template_kwargs": {"persona": "a parrot"}},
    "template argument null": {"messages": _OPENING, "chat_template_kwargs": {"persona": None}},
    "documents": {"messages": _OPENING, "documents": [{"title": "Iceland", "text": "Cold."}]},
    "no generation prompt": {"messages": _OPENING, "add_generation_prompt": False},
    "final message continued": {
        "messages": [*_OPENING, {"role": "assistant", "content": "It is about "}],
        "add_generation_prompt": False,
        "continue_final_message": True,
    },
    "special tokens added": {"messages": _OPENING, "add_special_tokens": True},
    "truncated": {"messages": _OPENING, "truncate_prompt_tokens": 80},
    "truncated on the right": {"messages": _OPENING, "truncate_prompt_tokens": 81, "truncation_side": "right"},
    "format of the answer": {"messages": _OPENING, "response_format": {"type": "json_object"}},
}
_COMPLETIONS: Mapping[str, Body] = {
    "text": {"prompt": LONG},
    "unicode": {"prompt": LONG + _UNICODE},
    "a text with a chat in it": {"prompt": f"<|im_start|>user\n{LONG}<|im_end|>\n<|im_start|>assistant\n"},
    "one text in a list": {"prompt": [LONG]},
    "texts": {"prompt": [prose("first text", 50), prose("second text", 70), prose("third text", 90)]},
    "texts that begin alike": {"prompt": [f"{prose('alike', 70)} {ending}" for ending in ("one", "two", "three")]},
    "ids": {"prompt": token_ids("ids", 100)},
    "ids of just three blocks": {"prompt": token_ids("three blocks", 96)},
    "lists of ids": {"prompt": [token_ids("first ids", 97), token_ids("second ids", 64), token_ids("third ids", 150)]},
    "no special tokens": {"prompt": LONG, "add_special_tokens": False},
    "truncated": {"prompt": LONG, "truncate_prompt_tokens": 70},
    "ids truncated": {"prompt": token_ids("ids", 100), "truncate_prompt_tokens": 70},
    "echo": {"prompt": LONG, "echo": True},
}
_RESPONSES: Mapping[str, Body] = {
    "text": {"input": LONG},
    "instructions": {"input": _UNICODE, "instructions": LONG},
    "items": {"input": [_SYSTEM, _ASK, {"role": "assistant", "content": "4.5 °C."}, _ASK]},
    "items in parts": {"input": [{"role": "user", "content": [{"type": "input_text", "text": LONG}]}]},
    "calls and results": {"input": _ITEMS},
    "tools": {"input": LONG, "tools": _FUNCTIONS},
    "tools, calls and results": {"input": _ITEMS, "tools": _FUNCTIONS, "instructions": "Be brief."},
    "effort": {"input": LONG, "reasoning": {"effort": "low"}},
    "template argument": {"input": LONG, "chat_template_kwargs": {"persona": "a parrot"}},
    "truncation": {"input": LONG, "truncation": "auto"},
}
_MESSAGES: Mapping[str, Body] = {
    "text": {"messages": [{"role": "user", "content": LONG}]},
    "system": {"system": LONG, "messages": [_ASK]},
    "system in blocks": {
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=8f2a1;"},
            {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": _UNICODE},
        ],
        "messages": [_ASK],
    },
    "system among turns": {
        "messages": [{"role": "user", "content": LONG}, {"role": "system", "content": "Be brief."}, _ASK]
    },
    "blocks": {"messages": [{"role": "user", "content": _PARTS}]},
    "several turns": {"system": LONG, "messages": [_ASK, {"role": "assistant", "content": "4.5 °C."}, _ASK]},
    "tools": {"messages": [{"role": "user", "content": LONG}], "tools": _MESSAGES_TOOLS},
    "tool choice none": {
        "messages": [{"role": "user", "content": LONG}],
        "tools": _MESSAGES_TOOLS,
        "tool_choice": {"type": "none"},
    },
    "thinking, tool uses and results": {"messages": _USED, "tools": _MESSAGES_TOOLS},
    "thinking adaptive": {"messages": [{"role": "user", "content": LONG}], "thinking": {"type": "adaptive"}},
    "thinking disabled": {"messages": [{"role": "user", "content": LONG}], "thinking": {"type": "disabled"}},
    "effort": {"messages": [{"role": "user", "content": LONG}], "output_config": {"effort": "high"}},
}
SHAPES: Mapping[str, tuple[str, Body]] = {
    f"{endpoint} {name}": (endpoint, body)
    for endpoint, bodies in (
        (CHAT, _CHATS), (COMPLETIONS, _COMPLETIONS), (RESPONSES, _RESPONSES), (MESSAGES, _MESSAGES),
    )
    for name, body in bodies.items()
}  # fmt: skip
"""endpoint and body, without model and limit, by what is special in it"""

REFUSED: Mapping[str, tuple[str, Body]] = {
    "embeddings of a model that has none": (EMBEDDINGS, {"input": LONG}),
    "a template of the client's": (CHAT, {"messages": _OPENING, "chat_template": "{{ messages }}"}),
    "no tools in the list of tools": (CHAT, {"messages": _OPENING, "tools": []}),
    "an empty salt": (CHAT, {"messages": _OPENING, "cache_salt": ""}),
    "a final message both continued and answered": (CHAT, {"messages": _OPENING, "continue_final_message": True}),
    "messages that are none": (CHAT, {"messages": "hello"}),
    "a template among the arguments for it": (
        CHAT, {"messages": _OPENING, "chat_template_kwargs": {"chat_template": "{{ messages }}"}},
    ),
    "ids beyond the vocabulary": (COMPLETIONS, {"prompt": [1, 2, 4_000_000_000]}),
    "a list of nothing": (COMPLETIONS, {"prompt": []}),
    "input of an unknown kind": (RESPONSES, {"input": [{"type": "riddle"}]}),
    "a role that there is not": (MESSAGES, {"messages": [{"role": "wizard", "content": LONG}]}),
}  # fmt: skip
"""endpoint and body that the engine answers with 4xx"""

UNSCORED: Mapping[str, tuple[str, Body]] = {
    "template_arguments": (CHAT, {"messages": _OPENING, "chat_template_kwargs": {"padding": True}}),
    "malformed": (COMPLETIONS, {"prompt": [True, *token_ids("truth", 50)]}),
}
"""endpoint and body that the engine answers and the gateway does not score, by the reason that it counts"""

LIMITS: Mapping[str, Body] = {
    CHAT: {"max_tokens": 1, "temperature": 0},
    COMPLETIONS: {"max_tokens": 1, "temperature": 0},
    RESPONSES: {"max_output_tokens": 1, "temperature": 0},
    MESSAGES: {"max_tokens": 1, "temperature": 0},
    EMBEDDINGS: {},
}
"""what keeps an answer short"""


def prompts(body: Body) -> int:
    """How many prompts a request has."""
    prompt = body.get("prompt")
    return len(prompt) if isinstance(prompt, list) and not isinstance(prompt[0], int) else 1


def plain(endpoint: str, text: str) -> Body:
    """The endpoint's simplest request with this text as its prompt."""
    ask = [{"role": "user", "content": text}]
    bodies: Mapping[str, Body] = {
        CHAT: {"messages": ask}, COMPLETIONS: {"prompt": text}, RESPONSES: {"input": text}, MESSAGES: {"messages": ask},
    }  # fmt: skip
    return bodies[endpoint]
