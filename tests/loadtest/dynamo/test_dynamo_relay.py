"""A simulated replica's answers as Dynamo's frontend wants them."""

from collections.abc import AsyncIterator

import httpx

from loadtest.dynamo.relay import completion, outputs
from loadtest.replica.serve import ReplicaSettings, serve
from loadtest.replica.text import Text

PROMPT = list(range(40))


async def test_tokens_come_one_by_one_and_the_last_with_the_reason_and_the_usage(text: Text) -> None:
    request = {"token_ids": PROMPT, "stop_conditions": {"max_tokens": 3, "ignore_eos": True}, "model": "sim"}
    async with (
        serve(ReplicaSettings(blocks=65, time_scale=0.01), text) as replica,
        httpx.AsyncClient(base_url=replica.url) as client,
        client.stream("POST", "/v1/completions", json=completion(request)) as answer,
    ):
        *first, last = [output async for output in outputs(lines(answer))]
    assert [sorted(output) for output in first] == [["index", "token_ids"]] * 2
    assert [len(output["token_ids"]) for output in (*first, last)] == [1, 1, 1]
    assert last["finish_reason"] == "length"
    usage = last["completion_usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (len(PROMPT), 3)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 0}


def test_without_limits_the_replica_sets_them() -> None:
    assert completion({"token_ids": PROMPT})["max_tokens"] is None


async def lines(answer: httpx.Response) -> AsyncIterator[bytes]:
    async for line in answer.aiter_lines():
        yield line.encode()
