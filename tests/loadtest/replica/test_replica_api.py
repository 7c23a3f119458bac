"""The simulated replica over real sockets, by the clients that people use."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
import pytest_asyncio

from loadtest.replica.serve import ReplicaSettings, Served, serve
from loadtest.replica.text import Text

WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
USER: Any = {"role": "user", "content": "What is a block?"}
DEADLINE_SECONDS = 10.0


@pytest_asyncio.fixture
async def http(replica: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=replica.url) as client:
        yield client


@pytest_asyncio.fixture
async def sdk(replica: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{replica.url}/v1", api_key="any", max_retries=0) as client:
        yield client


def chunks(body: str) -> list[dict[str, Any]]:
    """The JSON events of a stream that ended properly."""
    *events, done, rest = body.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


async def load_reaches(client: httpx.AsyncClient, load: int) -> None:
    """Wait until the replica has so many requests, running and waiting together."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (await client.get("/load")).json() != {"server_load": load}:
            pass


async def test_a_chat_answers_the_same_whole_and_streamed(sdk: openai.AsyncOpenAI) -> None:
    whole = await sdk.chat.completions.create(model="sim", messages=[USER], max_tokens=6)
    stream = await sdk.chat.completions.create(model="sim", messages=[USER], max_tokens=6, stream=True)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert whole.choices[0].finish_reason == "length"
    assert "".join(pieces) == whole.choices[0].message.content
    assert len(pieces) == 7, "the role comes first, alone"


async def test_a_reply_ends_by_itself_if_it_may(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(model="sim", messages=[USER])
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(str(answer.choices[0].message.content).split()) + 1


async def test_the_next_turn_finds_the_prompt_and_the_answer(sdk: openai.AsyncOpenAI, text: Text) -> None:
    first = await sdk.chat.completions.create(model="sim", messages=[USER], max_tokens=60)
    reply: Any = {"role": "assistant", "content": first.choices[0].message.content}
    assert first.usage is not None
    second = await sdk.chat.completions.create(model="sim", messages=[USER, reply, USER], max_tokens=1)
    assert second.usage is not None
    assert second.usage.prompt_tokens_details is not None
    known = first.usage.prompt_tokens + first.usage.completion_tokens - 1
    assert second.usage.prompt_tokens_details.cached_tokens == known // 16 * 16


async def test_usage_comes_in_a_chunk_of_its_own_and_only_if_asked_for(http: httpx.AsyncClient) -> None:
    body = {"model": "sim", "messages": [USER], "max_tokens": 2, "stream": True}
    plain = chunks((await http.post("/v1/chat/completions", json=body)).text)
    asked = {**body, "stream_options": {"include_usage": True}}
    with_usage = chunks((await http.post("/v1/chat/completions", json=asked)).text)
    assert all("usage" not in chunk for chunk in plain)
    *_, last = with_usage
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": last["usage"]["prompt_tokens"] // 16 * 16}
    assert last["usage"]["completion_tokens"] == 2
    assert len(with_usage) == len(plain) + 1


async def test_continuous_usage_counts_up_without_details(http: httpx.AsyncClient) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"prompt": "a b c", "max_tokens": 3, "stream": True, "stream_options": options}
    *tokens, _ = chunks((await http.post("/v1/completions", json=body)).text)
    assert [chunk["usage"]["completion_tokens"] for chunk in tokens] == [1, 2, 3]
    assert all("prompt_tokens_details" not in chunk["usage"] for chunk in tokens)


async def test_the_first_chunk_has_the_fields_of_a_recorded_one(http: httpx.AsyncClient) -> None:
    body = {"model": "sim", "messages": [USER], "max_tokens": 1, "stream": True}
    first, second = chunks((await http.post("/v1/chat/completions", json=body)).text)
    delta = {"role": "assistant", "content": ""}
    assert first["choices"] == [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]
    assert list(first)[:5] == ["id", "object", "created", "model", "choices"]
    assert list(second["choices"][0]) == ["index", "delta", "logprobs", "finish_reason", "stop_reason", "token_ids"]


async def test_several_prompts_and_choices_come_back_in_order(http: httpx.AsyncClient) -> None:
    body = {"prompt": [[1, 2, 3], "one two"], "n": 2, "max_tokens": 2, "return_token_ids": True}
    answer = (await http.post("/v1/completions", json=body)).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["choices"][1]["prompt_token_ids"] == [1, 2, 3]
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["choices"][0]["token_ids"] != answer["choices"][1]["token_ids"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_required_tool_is_called(http: httpx.AsyncClient, stream: bool) -> None:
    body = {"messages": [USER], "tools": [WEATHER], "tool_choice": "required", "stream": stream}
    response = await http.post("/v1/chat/completions", json=body)
    choice = chunks(response.text)[-1]["choices"][0] if stream else response.json()["choices"][0]
    called = choice["delta" if stream else "message"]["tool_calls"][0]
    assert called["function"] == {"name": "weather", "arguments": "{}"}
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("why", "path", "body", "status", "type", "param"),
    [
        ("unknown model", "/v1/completions", b'{"model": "x", "prompt": "a"}', 404, "NotFoundError", "model"),
        ("too long", "/v1/completions", b'{"prompt": [%s 1]}' % (b"1," * 600), 400, "BadRequestError", "input_tokens"),
        ("malformed", "/v1/chat/completions", b'{"messages": [', 400, "BadRequestError", None),
        ("no object", "/v1/chat/completions", b"[]", 400, "BadRequestError", None),
        ("no messages", "/v1/chat/completions", b"{}", 400, "BadRequestError", "messages"),
        ("no prompt", "/v1/completions", b"{}", 400, "BadRequestError", "prompt"),
        ("an empty prompt", "/v1/completions", b'{"prompt": ""}', 400, "BadRequestError", "prompt"),
        ("a negative token", "/v1/completions", b'{"prompt": [-1]}', 400, "BadRequestError", "prompt"),
        ("no output", "/v1/completions", b'{"prompt": "a", "max_tokens": 0}', 400, "BadRequestError", "max_tokens"),
        ("unknown tokens", "/detokenize", b'{"tokens": [999999]}', 400, "BadRequestError", "tokens"),
    ],
)  # fmt: skip
async def test_what_cannot_be_served_is_refused_in_the_engines_form(
    http: httpx.AsyncClient, why: str, path: str, body: bytes, status: int, type: str, param: str | None
) -> None:
    response = await http.post(path, content=body)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["type"], error["param"]) == (status, status, type, param), why


async def test_token_ids_given_for_a_chat_replace_its_messages(http: httpx.AsyncClient) -> None:
    body = {"messages": [USER], "kv_transfer_params": {"prompt_token_ids": [5] * 40}, "max_tokens": 1}
    answer = (await http.post("/v1/chat/completions", json=body)).json()
    assert answer["usage"]["prompt_tokens"] == 40


async def test_tokenize_gives_what_the_chat_route_prefills(http: httpx.AsyncClient) -> None:
    body = {"model": "sim", "messages": [USER], "tools": [WEATHER], "max_tokens": 1, "return_token_ids": True}
    tokenized = (await http.post("/tokenize", json=body)).json()
    answered = (await http.post("/v1/chat/completions", json=body)).json()
    assert tokenized["tokens"] == answered["prompt_token_ids"]
    assert tokenized["count"] == answered["usage"]["prompt_tokens"]
    assert "What is a block?" in (await http.post("/detokenize", json={"tokens": tokenized["tokens"]})).json()["prompt"]


async def test_render_gives_what_each_route_prefills(text: Text) -> None:
    chat = {"model": "sim", "messages": [USER], "tools": [WEATHER], "max_tokens": 1, "cache_salt": "s"}
    headers = {"x-request-id": "r"}
    async with (
        serve(ReplicaSettings(blocks=65, time_scale=0.01, scale_out=True), text) as replica,
        httpx.AsyncClient(base_url=replica.url, headers=headers) as http,
    ):
        rendered = (await http.post("/v1/chat/completions/render", json=chat)).json()
        answered = (await http.post("/v1/chat/completions", json={**chat, "return_token_ids": True})).json()
        several = (await http.post("/v1/completions/render", json={"prompt": [[1, 2], [3]]})).json()
        refused = await http.post("/v1/completions/render", json={"prompt": ""})
    assert rendered["token_ids"] == answered["prompt_token_ids"]
    assert (rendered["request_id"], rendered["model"], rendered["cache_salt"]) == ("chatcmpl-r", "sim", "s")
    assert rendered["sampling_params"] == {"max_tokens": 1}
    assert [(one["request_id"], one["token_ids"]) for one in several] == [("cmpl-r-0", [1, 2]), ("cmpl-r-1", [3])]
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt")


@pytest.mark.parametrize("endpoint", ["/v1/chat/completions", "/v1/completions"])
async def test_render_is_forbidden_unless_it_was_asked_for(http: httpx.AsyncClient, endpoint: str) -> None:
    response = await http.post(f"{endpoint}/render", json={"messages": [USER], "prompt": "a"})
    assert (response.status_code, response.json()["error"]["type"]) == (403, "PermissionDeniedError")
    assert "--enable-scale-out" in response.json()["error"]["message"]


async def test_the_operators_endpoints(http: httpx.AsyncClient, replica: Served, text: Text) -> None:
    assert (await http.get("/health")).status_code == 200
    (card,) = (await http.get("/v1/models")).json()["data"]
    assert (card["id"], card["root"], card["parent"], card["max_model_len"]) == ("sim", str(text.path), None, 512)
    source = (await http.get("/kv_event_sources")).json()["0"]
    assert (source["endpoint"], source["topic"]) == (replica.publisher.endpoint, "")
    assert (await http.get("/load")).json() == {"server_load": 0}
    assert "version" in (await http.get("/version")).json()


async def test_metrics_have_the_engines_names_and_labels(http: httpx.AsyncClient) -> None:
    await http.post("/v1/completions", json={"prompt": [1] * 40, "max_tokens": 2})
    await http.post("/v1/completions", json={"prompt": [1] * 40, "max_tokens": 2})
    lines = (await http.get("/metrics")).text.splitlines()
    labels = '{engine="0",model_name="sim"}'
    for line in (
        f"vllm:prefix_cache_queries_total{labels} 80.0",
        f"vllm:prefix_cache_hits_total{labels} 32.0",
        f"vllm:prompt_tokens_total{labels} 80.0",
        f"vllm:generation_tokens_total{labels} 4.0",
        f"vllm:num_requests_running{labels} 0.0",
        f"vllm:kv_cache_usage_perc{labels} 0.0",
        'vllm:request_success_total{engine="0",finished_reason="length",model_name="sim"} 2.0',
    ):
        assert line in lines
    (config,) = [line for line in lines if line.startswith("vllm:cache_config_info")]
    assert 'block_size="16"' in config
    assert 'num_gpu_blocks="65"' in config


async def test_the_answer_carries_the_requests_own_id(http: httpx.AsyncClient) -> None:
    headers = {"X-Request-Id": "mine"}
    chat = await http.post("/v1/chat/completions", json={"messages": [USER], "max_tokens": 1}, headers=headers)
    completion = await http.post("/v1/completions", json={"prompt": "a", "max_tokens": 1}, headers=headers)
    assert (chat.json()["id"], completion.json()["id"]) == ("chatcmpl-mine", "cmpl-mine")


async def test_other_paths_are_not_found(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/embeddings", json={})
    assert (response.status_code, response.json()) == (404, {"detail": "Not Found"})


async def test_resetting_empties_the_cache(http: httpx.AsyncClient) -> None:
    body = {"prompt": [1] * 40, "max_tokens": 1}
    await http.post("/v1/completions", json=body)
    assert (await http.post("/reset_prefix_cache")).json() == {"success": True}
    usage = (await http.post("/v1/completions", json=body)).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0


@pytest.mark.parametrize("when", ["waiting", "streaming"])
async def test_a_client_that_leaves_frees_its_request_at_once(text: Text, when: str) -> None:
    async with serve(ReplicaSettings(blocks=65, max_model_length=1024), text) as replica:
        body = {"prompt": [1] * 40, "max_tokens": 900, "ignore_eos": True, "stream": when == "streaming"}
        async with httpx.AsyncClient(base_url=replica.url) as client:
            if when == "streaming":
                async with client.stream("POST", "/v1/completions", json=body) as response:
                    await anext(response.aiter_lines())
                    assert replica.engine.running == 1
            else:
                sending = asyncio.create_task(client.post("/v1/completions", json=body))
                await load_reaches(client, 1)
                sending.cancel()
                await asyncio.wait([sending])
            await load_reaches(client, 0)
        assert replica.engine.cache.pool.usage == 0
        assert replica.engine.counters.finished == {"stop": 0, "length": 0, "abort": 1}
