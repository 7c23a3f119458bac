"""Faults that routers were seen with, each of which made every prompt match nothing, or another's."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.api.parse import parse, session
from gateway.prompt.reader import PromptReader
from gateway.prompt.result import EncodedPrompts, Reason, Unscored
from routing.blocks import block_hashes, root_hash

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "What is the weather in Paris today?"}]
BOS = 417
Readers = Mapping[str, PromptReader]


@pytest.fixture
def reader(recorded_readers: Readers) -> PromptReader:
    return recorded_readers["text"]


def ids(reader: PromptReader, endpoint: str, body: Mapping[str, Any]) -> list[int]:
    read = reader.read(endpoint, body)
    assert isinstance(read, EncodedPrompts), read
    return list(read.prompts[0])


def test_a_chats_body_is_not_read_as_an_empty_prompt(reader: PromptReader) -> None:
    assert len(ids(reader, CHAT, {"messages": HELLO})) > 8
    assert reader.read(COMPLETIONS, {"messages": HELLO}) == Unscored(Reason.MALFORMED)


def test_a_template_that_writes_the_bos_gets_no_second_one(reader: PromptReader) -> None:
    assert ids(reader, CHAT, {"messages": HELLO}).count(BOS) == 1
    assert ids(reader, COMPLETIONS, {"prompt": "What is it?"}).count(BOS) == 1


def test_tools_with_their_keys_in_another_order_are_the_same_prompt(reader: PromptReader) -> None:
    parameters = {"type": "object", "properties": {}}
    one = {"type": "function", "function": {"name": "f", "description": "d", "parameters": parameters}}
    other = {"function": {"parameters": parameters, "description": "d", "name": "f"}, "type": "function"}
    first, second = (ids(reader, CHAT, {"messages": HELLO, "tools": [tool]}) for tool in (one, other))
    assert first == second
    assert first != ids(reader, CHAT, {"messages": HELLO})


def test_a_system_message_in_parts_is_the_same_prompt(reader: PromptReader) -> None:
    parts = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    systems: list[Any] = [parts, "Be brief.\nBe kind."]
    first, second = (ids(reader, CHAT, {"messages": [{"role": "system", "content": text}, *HELLO]}) for text in systems)
    assert first == second


def test_prompts_of_ids_are_told_apart_by_their_ids_and_not_by_their_length(reader: PromptReader) -> None:
    one, other = (ids(reader, COMPLETIONS, {"prompt": [start, *range(2, 40)]}) for start in (5, 6))
    root = root_hash(b"", "m", 16)
    assert not set(block_hashes(one, 16, root)) & set(block_hashes(other, 16, root))


def test_what_a_prompt_says_is_no_field_of_the_request() -> None:
    quoted = '"user": "mallory", "model": "other", "cache_salt": "stolen", "prompt_token_ids": [1]'
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": quoted}]}).encode()
    body = parse(raw)
    assert (body.model, body.user, body.cache_salt, body.kv_transfer_params) == ("m", None, None, None)
    assert session({}, body) is None


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("/v1/embeddings", {"input": "Hi"}),
        ("/v1/responses", {"input": "Hi"}),
        ("/v1/embeddings", {}),
        ("/v1/responses", {}),
        ("/v1/messages", {}),
        ("/score", {}),
    ],
)
def test_a_body_without_messages_or_prompt_is_no_fault(
    endpoint: str, body: Mapping[str, Any], reader: PromptReader
) -> None:
    read = reader.read(endpoint, body)
    assert isinstance(read, EncodedPrompts) is bool(body)


def test_a_template_of_the_clients_is_honoured_where_the_engine_honours_it(recorded_readers: Readers) -> None:
    body = {"messages": HELLO, "chat_template": "{{ messages[0].content }}"}
    assert recorded_readers["text"].read(CHAT, body) == Unscored(Reason.REFUSED)
    plain = {"prompt": HELLO[0]["content"], "add_special_tokens": False}
    assert ids(recorded_readers["trusting"], CHAT, body) == ids(recorded_readers["trusting"], COMPLETIONS, plain)
