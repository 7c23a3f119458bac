import random
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from loadtest.prose import sentences, snippets
from loadtest.replica.make_tokenizer import build
from loadtest.replica.speech import MAX_WORDS, Speaker
from loadtest.replica.text import TOKENIZER, Text

PIECES = ["hello ", "the ", " \n", "\n\n", "  ", "Don't", "12", "3.4", "é", "e\u0301", "你好", "🎉", "\t", "<|im_end|>",
          "<|im_start|>", "user", "<tool_call>", '{"a":', "_x", "!?", "\r\n", "ß"]  # fmt: skip
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "3"},
]


def test_both_encoders_agree_on_anything(text: Text) -> None:
    reference = AutoTokenizer.from_pretrained(str(TOKENIZER))
    rng = random.Random(0)
    for _ in range(500):
        sample = "".join(rng.choices(PIECES, k=rng.randint(1, 30)))
        assert text.encode(sample) == reference.encode(sample, add_special_tokens=False), repr(sample)


@pytest.mark.parametrize("end", [{"add_generation_prompt": True}, {}, {"continue_final_message": True}])
def test_prompts_are_rendered_and_decoded_as_transformers_does(text: Text, end: dict[str, Any]) -> None:
    reference = AutoTokenizer.from_pretrained(str(TOKENIZER))
    assert (text.size, text.end) == (len(reference), reference.eos_token_id)
    rng = random.Random(0)

    def words() -> str:
        return "".join(rng.choices([*PIECES, "<b>&'", ""], k=rng.randint(0, 5)))

    def message() -> dict[str, Any]:
        called = {"name": words(), "arguments": {words(): words(), "z": [1.0, None, True], "a": {}}}
        calls = [{"type": "function", "function": called}] * rng.randint(0, 2)
        return {"role": rng.choice(["system", "user", "assistant", "tool"]), "content": words(), "tool_calls": calls}

    for _ in range(300):
        messages = [message() for _ in range(rng.randint(1, 5))]
        function = {"name": words(), "description": words(), "parameters": {"z": words(), "a": 1}}
        tools: list[dict[Any, Any]] = [{"type": "function", "function": function}] * rng.randint(0, 2)
        rendered = text.render(
            messages,
            tools,
            generation_prompt=end.get("add_generation_prompt", False),
            continue_final_message=end.get("continue_final_message", False),
        )
        assert rendered == reference.apply_chat_template(messages, tools=[*tools] or None, tokenize=False, **end)
        assert text.decode(text.encode(rendered)) == reference.decode(text.encode(rendered))


def test_text_survives_the_round_trip(text: Text) -> None:
    rng = random.Random(0)
    for sample in (*sentences(rng, 20), *snippets(rng, 5), "Zürich, 你好 🎉"):
        assert text.decode(text.encode(sample)) == sample


def test_the_shipped_files_are_what_the_script_makes() -> None:
    fresh, shipped = build(), AutoTokenizer.from_pretrained(str(TOKENIZER))
    assert fresh.get_vocab() == shipped.get_vocab()
    assert fresh.chat_template == shipped.chat_template
    assert sum(file.stat().st_size for file in Path(TOKENIZER).iterdir()) < 150_000


def test_messages_are_normalised_as_the_engine_does(text: Text) -> None:
    tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f", "unknown": 1}}]
    rendered = text.render(MESSAGES, tools)
    assert "one\ntwo" in rendered
    assert '{"name": "f", "arguments": {"x": 1}}' in rendered
    assert '{"name": "f", "description": null, "parameters": null}' in rendered
    assert rendered.endswith("<|im_start|>assistant\n")


def test_a_longer_chat_continues_the_shorter_one(text: Text) -> None:
    shorter = text.render(MESSAGES[:2], None, generation_prompt=False)
    assert text.render(MESSAGES, None).startswith(shorter)


@pytest.mark.parametrize("limit", [1, 10, 10_000])
def test_a_reply_said_again_has_the_same_tokens(text: Text, limit: int) -> None:
    reply = Speaker(text, seed=0).reply([1, 2, 3], limit)
    said = "".join(map(text.piece, reply))
    assert text.encode(f"assistant\n{said}<|im_end|>\n") == [
        *text.encode("assistant\n"),
        *(reply if reply[-1] == text.end else [*reply, text.end]),
        *text.encode("\n"),
    ]


def test_replies_depend_on_seed_prompt_and_variant_alone(text: Text) -> None:
    def say(seed: int, prompt: list[int], variant: int = 0) -> list[int]:
        return Speaker(text, seed).reply(prompt, 20, variant=variant)

    assert say(0, [1, 2]) == say(0, [1, 2])
    assert len({tuple(reply) for reply in (say(0, [1, 2]), say(1, [1, 2]), say(0, [1, 3]), say(0, [1, 2], 5))}) == 4


def test_a_reply_that_may_not_end_is_as_long_as_the_limit(text: Text) -> None:
    reply = Speaker(text, seed=0).reply([1], 3 * MAX_WORDS, ignore_end=True)
    assert len(reply) == 3 * MAX_WORDS
    assert text.end not in reply
