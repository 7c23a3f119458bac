"""Bodies that are nearly right: valid requests with a few things changed at random."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

VALUES: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 2, 7, 1.0, 1.5, 10**12, "", " ", "a", "user", "system", "assistant", "tool", "auto"),
    *(
        "none",
        "null",
        "low",
        "<|im_end|>",
        "é\u0301 🙂",
        "{}",
        '{"a": 1}',
        "[1]",
        [],
        [None],
        ["a"],
        [1, 2],
        [[1], [2]],
    ),
    *(
        [[]],
        {},
        {"a": 1},
        {"type": "text", "text": "x"},
        [{"type": "text", "text": "x"}],
        {"role": "user", "content": "y"},
    ),
    *([{"role": "user", "content": "y"}], {"enable_thinking": False}, {"name": "f"}),
)
FIELDS: Sequence[str] = (
    *("add_generation_prompt", "continue_final_message", "add_special_tokens", "chat_template_kwargs", "documents"),
    *("reasoning_effort", "tools", "tool_choice", "truncate_prompt_tokens", "truncation_side", "cache_salt", "echo"),
    *("name", "content", "role", "reasoning", "reasoning_content", "tool_calls", "tool_call_id", "type", "text"),
    *("instructions", "thinking", "system", "max_tokens", "suffix", "prompt_logprobs", "logprobs", "n", "task"),
    *("instruction", "padding", "query", "documents", "text_1", "text_2", "messages", "input", "prompt"),
)


def mutated(random: Random, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """A copy with one to three values replaced, removed, doubled or added, at any depth."""
    changed = copy.deepcopy(dict(body))
    for _ in range(random.randint(1, 3)):
        places = list(_places(changed))
        container, key = random.choice(places) if places else (changed, None)
        match random.randrange(5):
            case 0 if key is not None:
                del container[key]
            case 1 if key is not None and isinstance(container, list):
                container.insert(random.randint(0, len(container)), copy.deepcopy(container[key]))
            case 2:
                target = random.choice([changed, *(found for found, _ in places if isinstance(found, dict))])
                target[random.choice(FIELDS)] = copy.deepcopy(random.choice(VALUES))
            case _ if key is not None:
                container[key] = copy.deepcopy(random.choice(VALUES))
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys or positions."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)
