"""The official client against the gateway, simulated replicas behind it."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import openai
import pytest
import pytest_asyncio
from heard import all_heard
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from processes import all_joined, eventually, gateway_process, replicas_process

pytestmark = pytest.mark.asyncio(loop_scope="module")

Messages = list[ChatCompletionMessageParam]
SYSTEM = "You answer questions about the weather, briefly and to the point. " * 8


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    folder: Path = tmp_path_factory.mktemp("openai")
    async with replicas_process(3, folder, "--time-scale", "0.05") as urls:
        settings = {
            "policy": "kv-aware",
            "allow_policy_header": True,
            "replicas": [{"url": url} for url in urls],
            "limits": {"body_bytes": 1_000_000},
        }
        async with gateway_process(settings, folder) as running:
            await all_joined(running.url, 3)
            yield running.url


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def client(gateway: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=gateway + "/v1", api_key="unused", max_retries=0) as client:
        yield client


async def test_models_are_the_union_of_the_replicas(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["sim"]


async def test_every_turn_of_a_conversation_finds_the_last_one_and_is_predicted_exactly(
    client: openai.AsyncOpenAI, gateway: str
) -> None:
    messages: Messages = [{"role": "system", "content": SYSTEM}]
    replicas, before = set(), 0
    for turn in range(8):
        messages.append({"role": "user", "content": f"And what about day {turn}?"})
        raw = await client.chat.completions.with_raw_response.create(model="sim", messages=messages, max_tokens=24)
        answer = raw.parse()
        assert answer.usage is not None
        assert answer.usage.prompt_tokens_details is not None
        cached = answer.usage.prompt_tokens_details.cached_tokens
        assert int(raw.headers["x-kvgate-cached-tokens"]) == cached
        assert (cached or 0) > before - 16
        replicas.add(raw.headers["x-kvgate-replica"])
        before = answer.usage.prompt_tokens
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        await all_heard(gateway)  # of the answer's own blocks too, which come with its last tokens
    assert len(replicas) == 1


async def test_a_stream_looks_as_if_the_gateway_had_asked_for_nothing(client: openai.AsyncOpenAI) -> None:
    messages: Messages = [{"role": "user", "content": "Tell me a story."}]
    plain = [
        chunk async for chunk in await client.chat.completions.create(
            model="sim", messages=messages, max_tokens=10, stream=True
        )
    ]  # fmt: skip
    assert all(chunk.choices for chunk in plain)
    assert not any("usage" in chunk.model_fields_set for chunk in plain)
    counted = [
        chunk async for chunk in await client.chat.completions.create(
            model="sim", messages=messages, max_tokens=10, stream=True, stream_options={"include_usage": True}
        )
    ]  # fmt: skip
    assert counted[-1].usage is not None
    assert counted[-1].usage.completion_tokens == 10
    assert len(counted) == len(plain) + 1


async def test_completions_take_text_and_token_ids(client: openai.AsyncOpenAI) -> None:
    text = await client.completions.create(model="sim", prompt="Once upon a time " * 20, max_tokens=4)
    assert text.choices[0].text
    prompt = list(range(10, 110))
    cached = []
    for _ in range(2):
        raw = await client.completions.with_raw_response.create(model="sim", prompt=prompt, max_tokens=1)
        usage = raw.parse().usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        assert int(raw.headers["x-kvgate-cached-tokens"]) == usage.prompt_tokens_details.cached_tokens
        cached.append(usage.prompt_tokens_details.cached_tokens)
    assert cached == [0, 96]


async def test_tools_and_their_results_are_predicted_exactly(client: openai.AsyncOpenAI) -> None:
    tools: list[ChatCompletionToolParam] = [
        {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
    ]
    messages: Messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "How is the weather in Berlin?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Berlin"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "sunny, 21 degrees"},
    ]
    cached = []
    for _ in range(2):
        raw = await client.chat.completions.with_raw_response.create(
            model="sim", messages=messages, tools=tools, max_tokens=4
        )
        usage = raw.parse().usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        assert int(raw.headers["x-kvgate-cached-tokens"]) == usage.prompt_tokens_details.cached_tokens
        cached.append(usage.prompt_tokens_details.cached_tokens or 0)
    assert cached[1] > cached[0], "the second time all but the last block are there"


async def test_equal_prompts_that_arrive_together_go_to_one_replica(gateway: str) -> None:
    import asyncio

    async with httpx.AsyncClient() as http:
        prompt = {"model": "sim", "max_tokens": 1, "prompt": "All at once, and all the same. " * 40}
        answers = await asyncio.gather(*(http.post(gateway + "/v1/completions", json=prompt) for _ in range(2)))
    assert len({answer.headers["x-kvgate-replica"] for answer in answers}) == 1


async def test_a_request_may_choose_its_policy_where_that_is_allowed(gateway: str) -> None:
    async with httpx.AsyncClient() as http:
        prompt = {"model": "sim", "prompt": [1, 2, 3], "max_tokens": 1}
        url = gateway + "/v1/completions"
        answers = [await http.post(url, json=prompt, headers={"x-kvgate-policy": "roundrobin"}) for _ in range(3)]
        assert {answer.headers["x-kvgate-policy"] for answer in answers} == {"round-robin"}
        assert len({answer.headers["x-kvgate-replica"] for answer in answers}) == 3
        refused = await http.post(url, json=prompt, headers={"x-kvgate-policy": "fastest"})
        assert refused.status_code == 400
        assert "kv-aware" in refused.json()["error"]["message"]


async def test_errors_are_in_openais_form(client: openai.AsyncOpenAI, gateway: str) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "hi"}])
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    async with httpx.AsyncClient() as http:
        malformed = await http.post(gateway + "/v1/chat/completions", content=b'{"model": "sim", "messages": [}')
        assert malformed.status_code == 400
        assert "char 30" in malformed.json()["error"]["message"]
        large = await http.post(gateway + "/v1/completions", json={"model": "sim", "prompt": "x" * 1_000_000})
        assert large.status_code == 413
        assert large.json()["error"]["code"] == "body_too_large"
        hidden = await http.post(gateway + "/v1/load_lora_adapter", json={})
        assert hidden.status_code == 404
        assert hidden.json()["error"]["code"] == "unknown_url"


async def test_an_engines_own_refusal_comes_through(client: openai.AsyncOpenAI, gateway: str) -> None:
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        await client.completions.create(model="sim", prompt="1" * 200_000, max_tokens=1)
    # The client takes four seconds to look at so many ids.
    async with httpx.AsyncClient() as http:
        ids = {"model": "sim", "prompt": [1] * 200_000, "max_tokens": 1}
        refused = await http.post(gateway + "/v1/completions", json=ids)
    assert refused.status_code == 400
    assert "maximum context length" in refused.json()["error"]["message"]


async def test_a_stream_that_is_closed_early_leaves_nothing(client: openai.AsyncOpenAI, gateway: str) -> None:
    stream = await client.chat.completions.create(
        model="sim", messages=[{"role": "user", "content": "Count to a million."}], max_tokens=4000, stream=True
    )
    async for _ in stream:
        break
    await stream.close()
    async with httpx.AsyncClient() as http:

        async def quiet() -> bool:
            return not sum(engine["in_flight"] for engine in (await http.get(gateway + "/index")).json())

        await eventually(quiet, "the lease is back")


async def test_explain_tells_every_candidate_and_sends_nothing(gateway: str) -> None:
    async with httpx.AsyncClient() as http:
        prompt = {"model": "sim", "prompt": list(range(500, 700)), "max_tokens": 1}
        before = (await http.post(gateway + "/explain?endpoint=/v1/completions", json=prompt)).json()
        assert len(before["candidates"]) == 3
        assert before["prompt_tokens"] == 200
        for candidate in before["candidates"]:
            assert candidate["tokens"] == {"l0": 0, "l1": 0, "l2": 0, "prefill": 200}
            assert candidate["load"].keys() >= {"in_flight", "pending_tokens", "running", "waiting", "kv_usage"}
            predicted = candidate["predicted_ms"]
            terms = sum(predicted[term] for term in ("queue", "decode", "load", "prefill"))
            assert predicted["ttft"] == pytest.approx(terms, abs=0.01)
            assert predicted["prefill"] > 0
        sent = await http.post(gateway + "/v1/completions", json=prompt)

        async def known() -> bool:
            after = (await http.post(gateway + "/explain?endpoint=/v1/completions", json=prompt)).json()
            best = after["candidates"][0]
            return bool(best["tokens"]["l0"] == 192 and best["replica"] == sent.headers["x-kvgate-replica"])

        await eventually(known, "the replica that served it holds its blocks")
        unknown = await http.post(gateway + "/explain", json={"model": "nobody", "messages": []})
        assert unknown.status_code == 404
