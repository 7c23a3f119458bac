"""Whatever a client sends, it gets the replica's answer or a 400 in OpenAI's form."""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from fake_replica import fake_replica
from gateway_here import gateway_here
from mutations import mutated

from gateway.api.paths import SCORED
from loadtest.replica.text import TOKENIZER

SETTINGS = {"policy": "kv-aware", "models": {"fake": {"tokenizer": str(TOKENIZER), "send_token_ids": True}}}
TEXT = [{"type": "text", "text": "Hello 🌍"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
BODIES: Sequence[Mapping[str, Any]] = [
    {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": TEXT}], "stream": True},
    {
        "messages": [
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "1", "content": "2"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "chat_template_kwargs": {"enable_thinking": False},
        "stream_options": {"include_usage": False},
        "kv_transfer_params": {"prompt_token_ids": [1, 2]},
    },
    {"prompt": ["one", "two"], "n": 2, "echo": True, "truncate_prompt_tokens": 3, "cache_salt": "s"},
    {"prompt": [[1, 2], [3]], "suffix": None, "user": "me", "metadata": {"user_id": "me"}},
    {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], "instructions": "Be brief."},
    {"input": "Hi", "previous_response_id": "resp_1", "reasoning": {"effort": "low"}, "tools": []},
    {
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": "Hi"}],
        "thinking": {},
    },
    {"query": "q", "documents": ["a", {"content": TEXT}], "text_1": "a", "text_2": ["b"], "max_tokens_per_doc": 7},
]


async def test_a_body_that_is_nearly_right_is_answered() -> None:
    random = Random(7)
    async with fake_replica() as fake, gateway_here({**SETTINGS, "replicas": [{"url": fake.url}]}) as here:
        for path in sorted(SCORED) * 40:
            body = mutated(random, {"model": "fake", **random.choice(BODIES)})
            answer = await here.client.post(here.url + path, content=json.dumps(body).encode())
            assert answer.status_code in (200, 400, 404), (path, body)
            assert answer.status_code == 200 or answer.json()["error"]["message"], (path, body)
        assert len(fake.requests) > 100


async def test_bytes_that_are_no_json_are_refused_with_the_place() -> None:
    random = Random(3)
    async with fake_replica() as fake, gateway_here({**SETTINGS, "replicas": [{"url": fake.url}]}) as here:
        for _ in range(200):
            raw = bytearray(json.dumps({"model": "fake", **random.choice(BODIES)}).encode())
            for _ in range(random.randint(1, 4)):
                raw[random.randrange(len(raw))] = random.randrange(256)
            answer = await here.client.post(here.url + "/v1/chat/completions", content=bytes(raw))
            assert answer.status_code in (200, 400, 404), raw
            if answer.status_code == 400 and "not valid" in answer.json()["error"]["message"]:
                assert "char" in answer.text or "byte" in answer.text, raw
