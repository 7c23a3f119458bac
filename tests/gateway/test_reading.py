"""A body -> prompts and their blocks."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.chains import Chains
from gateway.prompt.reader import PromptReader, load
from gateway.reading import Reading, chained, read
from loadtest.replica.text import TOKENIZER
from routing.blocks import root_hash
from routing.types import Namespace

SPACE = Namespace("m", 16)
SYSTEM = {"role": "system", "content": "Be brief and to the point. " * 20}


@pytest.fixture(scope="module")
def reader() -> PromptReader:
    return load(Path(TOKENIZER))


def reading(reader: PromptReader, endpoint: str, body: dict[str, Any]) -> Reading:
    chain = partial(chained, "m", partial(root_hash, b""), frozenset({SPACE}), Chains())
    return read(reader.read, endpoint, json.dumps(body).encode(), chain)


def test_of_a_prompt_with_an_image_the_tokens_before_it_are_known(reader: PromptReader) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    chats: list[Any] = [[image], "Hello"]
    found, plain = (
        reading(reader, "/v1/chat/completions", {"messages": [SYSTEM, {"role": "user", "content": content}]})
        for content in chats
    )
    assert (found.route.whole, plain.route.whole) == (False, True)
    (before,), (whole,) = found.tokens, plain.tokens
    assert list(before) == list(whole)[: len(before)]
    blocks = found.route.prompts[0].chains[SPACE]
    assert len(blocks) == len(before) // 16 > 5
    assert plain.route.prompts[0].chains[SPACE][: len(blocks)] == blocks


def test_what_the_texts_of_a_request_have_in_common_counts_once(reader: PromptReader) -> None:
    texts = [SYSTEM["content"] + ending for ending in ("one", "two", "three")]
    found = reading(reader, "/v1/completions", {"prompt": texts})
    first, *others = [prompt.repeated[SPACE] for prompt in found.route.prompts]
    assert first == 0
    assert all(again >= len(found.route.prompts[0].chains[SPACE]) - 1 for again in others)
