import json
from collections.abc import Mapping

import httpx
import pytest

from gateway.prompt.parity import SHAPES, Outcome, ParityCheck
from gateway.prompt.reader import PromptReader
from gateway.prompt.result import EncodedPrompts
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import Tokenizer
from routing.fleet import ModelCard, Replica
from routing.types import ReplicaId

REPLICA = "http://replica:8000"


def tokenizing(reader: PromptReader, *, change: int | None = None) -> httpx.MockTransport:
    """A replica that tokenizes as this reader does; `change`: the position of a token that it gets wrong."""

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        result = reader.read("/tokenize", body)
        if not isinstance(result, EncodedPrompts):
            return httpx.Response(400)
        tokens = list(result.prompts[0])
        if change is not None:
            tokens[change] += 1
        return httpx.Response(200, json={"count": len(tokens), "tokens": tokens})

    return httpx.MockTransport(answer)


async def outcomes(transport: httpx.MockTransport, reader: PromptReader) -> Mapping[str, Outcome]:
    async with httpx.AsyncClient(transport=transport) as client:
        results = await ParityCheck(client).run(REPLICA, "m", reader)
    return {result.shape: result.outcome for result in results}


@pytest.fixture
def reader(recorded_readers: Mapping[str, PromptReader]) -> PromptReader:
    return recorded_readers["text"]


async def test_the_same_tokenizer_and_template_agree_on_every_shape(reader: PromptReader) -> None:
    assert set((await outcomes(tokenizing(reader), reader)).values()) == {Outcome.EQUAL}


async def test_another_template_is_found_out(
    reader: PromptReader, recorded_readers: Mapping[str, PromptReader]
) -> None:
    found = await outcomes(tokenizing(recorded_readers["strict"]), reader)
    assert found["text"] is Outcome.EQUAL
    assert found["plain"] is Outcome.DIFFERENT


async def test_other_defaults_are_found_out(reader: PromptReader, recorded_readers: Mapping[str, PromptReader]) -> None:
    found = await outcomes(tokenizing(recorded_readers["defaults"]), reader)
    assert found["plain"] is Outcome.DIFFERENT
    assert found["thinking_off"] is Outcome.EQUAL


async def test_the_first_difference_is_told_by_position_and_ids(reader: PromptReader) -> None:
    async with httpx.AsyncClient(transport=tokenizing(reader, change=3)) as client:
        results = await ParityCheck(client).run(REPLICA, "m", reader)
    for result in results:
        assert (result.outcome, result.position) == (Outcome.DIFFERENT, 3)
        assert result.ours is not None
        assert result.theirs == result.ours + 1


async def test_a_shape_that_both_refuse_is_equal(recorded_readers: Mapping[str, PromptReader]) -> None:
    strict = recorded_readers["strict"]
    assert set((await outcomes(tokenizing(strict), strict)).values()) == {Outcome.EQUAL}


async def test_a_shape_that_only_one_side_takes_is_different(small_tokenizer: Tokenizer, reader: PromptReader) -> None:
    def accepting(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"tokens": [1]})

    without_template = PromptReader(small_tokenizer, PromptSettings())
    found = await outcomes(httpx.MockTransport(accepting), without_template)
    assert (found["text"], found["plain"]) == (Outcome.DIFFERENT, Outcome.DIFFERENT)
    found = await outcomes(httpx.MockTransport(lambda request: httpx.Response(400)), reader)
    assert set(found.values()) == {Outcome.DIFFERENT}


async def test_what_sets_prompts_apart_in_the_cache_is_tried_too(reader: PromptReader) -> None:
    assert {"plain", "tools", "reasoned_tool_call", "reasoning", "salt"} <= SHAPES.keys()
    served = Replica(ReplicaId("replica:8000"), REPLICA, (ModelCard("m"), ModelCard("sql", parent="m")))
    async with httpx.AsyncClient(transport=tokenizing(reader)) as client:
        results = await ParityCheck(client).all(served, reader)
    assert [result.shape for result in results] == [*SHAPES, *(f"adapter_{shape}" for shape in SHAPES)]


@pytest.mark.parametrize("status", [404, 500])
async def test_no_answer_is_no_difference(status: int, reader: PromptReader) -> None:
    found = await outcomes(httpx.MockTransport(lambda request: httpx.Response(status)), reader)
    assert set(found.values()) == {Outcome.UNAVAILABLE}


async def test_each_question_names_the_model(reader: PromptReader) -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content)["model"])
        return httpx.Response(404)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        await ParityCheck(client).run(REPLICA, "adapter", reader)
    assert asked == ["adapter"] * len(SHAPES)
