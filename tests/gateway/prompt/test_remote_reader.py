import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import pytest
import respx

from gateway.prompt.remote import RemoteReader
from gateway.prompt.result import EncodedPrompts, Reason, Unscored

REPLICA = "http://replica:8000"
CHAT = "/v1/chat/completions"
HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def remote(clock: Clock) -> AsyncIterator[RemoteReader]:
    async with httpx.AsyncClient() as client:
        yield RemoteReader(client, clock, deadline=1, failures=2, pause=5)


def tokens(result: EncodedPrompts | Unscored) -> list[list[int]]:
    assert isinstance(result, EncodedPrompts), result
    return [list(prompt) for prompt in result.prompts]


def sent(route: respx.Route) -> Any:
    return json.loads(route.calls.last.request.content)


async def test_the_render_route_is_asked_and_its_answer_kept(
    remote: RemoteReader, respx_mock: respx.MockRouter
) -> None:
    route = respx_mock.post(f"{REPLICA}{CHAT}/render").respond(json={"token_ids": [1, 2, 3]})
    for sampling in ({"temperature": 0}, {"temperature": 1, "stream": True, "stream_options": {"include_usage": True}}):
        assert tokens(await remote.read(REPLICA, CHAT, HELLO | sampling)) == [[1, 2, 3]]
    assert route.call_count == 1
    assert "stream" not in sent(route)


async def test_another_conversation_is_another_question(remote: RemoteReader, respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(f"{REPLICA}{CHAT}/render").respond(json={"token_ids": [1]})
    await remote.read(REPLICA, CHAT, HELLO)
    await remote.read(REPLICA, CHAT, HELLO | {"chat_template_kwargs": {"enable_thinking": False}})
    assert route.call_count == 2


async def test_completions_render_to_a_list(remote: RemoteReader, respx_mock: respx.MockRouter) -> None:
    respx_mock.post(f"{REPLICA}/v1/completions/render").respond(json=[{"token_ids": [1]}, {"token_ids": [2, 3]}])
    result = await remote.read(REPLICA, "/v1/completions", {"prompt": ["a", "b"], "cache_salt": "s"})
    assert tokens(result) == [[1], [2, 3]]
    assert isinstance(result, EncodedPrompts)
    assert result.salt == "s"


async def test_tokens_end_before_the_first_image(remote: RemoteReader, respx_mock: respx.MockRouter) -> None:
    features = {"mm_placeholders": {"image": [{"offset": 3, "length": 9}], "audio": [{"offset": 2, "length": 1}]}}
    answer = {"token_ids": list(range(20)), "features": features}
    respx_mock.post(f"{REPLICA}{CHAT}/render").respond(json=answer)
    result = await remote.read(REPLICA, CHAT, HELLO)
    assert tokens(result) == [[0, 1]]
    assert isinstance(result, EncodedPrompts)
    assert result.images_from == 2


class TestWithoutRender:
    @pytest.fixture
    def render(self, respx_mock: respx.MockRouter) -> respx.Route:
        return respx_mock.post(url__regex=".*/render").respond(403)

    async def test_tokenize_is_asked_and_render_no_more(
        self, remote: RemoteReader, render: respx.Route, respx_mock: respx.MockRouter
    ) -> None:
        tokenize = respx_mock.post(f"{REPLICA}/tokenize").respond(json={"tokens": [4, 5]})
        assert tokens(await remote.read(REPLICA, CHAT, HELLO | {"max_tokens": 5})) == [[4, 5]]
        assert sent(tokenize) == HELLO
        await remote.read(REPLICA, CHAT, HELLO | {"add_generation_prompt": False})
        assert render.call_count == 1

    async def test_what_tokenize_lacks_is_said_through_template_arguments(
        self, remote: RemoteReader, render: respx.Route, respx_mock: respx.MockRouter
    ) -> None:
        tokenize = respx_mock.post(f"{REPLICA}/tokenize").respond(json={"tokens": [4]})
        documents = [{"title": "a", "text": "b"}]
        await remote.read(REPLICA, CHAT, HELLO | {"reasoning_effort": "none", "documents": documents})
        assert sent(tokenize)["chat_template_kwargs"] == {
            "documents": documents,
            "reasoning_effort": "none",
            "enable_thinking": False,
        }

    async def test_texts_are_asked_one_by_one_and_ids_not_at_all(
        self, remote: RemoteReader, render: respx.Route, respx_mock: respx.MockRouter
    ) -> None:
        tokenize = respx_mock.post(f"{REPLICA}/tokenize").respond(json={"tokens": [4]})
        assert tokens(await remote.read(REPLICA, "/v1/completions", {"prompt": ["a", "b"]})) == [[4], [4]]
        assert tokens(await remote.read(REPLICA, "/v1/completions", {"prompt": [[7, 8], [9]]})) == [[7, 8], [9]]
        assert tokenize.call_count == 2

    @pytest.mark.parametrize(
        ("endpoint", "body", "reason"),
        [
            (CHAT, HELLO | {"truncate_prompt_tokens": 5}, Reason.TRUNCATION),
            (CHAT, HELLO | {"tools": [{}], "tool_choice": "none"}, Reason.REMOTE),
            ("/v1/responses", {"input": "a"}, Reason.REMOTE),
            ("/v1/completions", {"prompt": [-1]}, Reason.MALFORMED),
            ("/v1/completions", {"prompt": ["a", 1]}, Reason.MALFORMED),
        ],
    )
    async def test_what_it_cannot_say_stays_unscored(
        self,
        endpoint: str,
        body: Mapping[str, Any],
        reason: Reason,
        remote: RemoteReader,
        render: respx.Route,
        respx_mock: respx.MockRouter,
    ) -> None:
        respx_mock.post(f"{REPLICA}/tokenize").respond(json={"tokens": [4]})
        assert await remote.read(REPLICA, endpoint, body) == Unscored(reason)
        respx_mock.clear()


async def test_a_refusal_is_no_failure(remote: RemoteReader, respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(f"{REPLICA}{CHAT}/render").respond(400, json={"error": {}})
    for _ in range(4):
        assert await remote.read(REPLICA, CHAT, HELLO) == Unscored(Reason.REFUSED)
    assert route.call_count == 4


@pytest.mark.parametrize(
    "answer",
    [
        lambda route: route.mock(side_effect=httpx.ConnectError),
        lambda route: route.mock(side_effect=httpx.ReadTimeout),
        lambda route: route.respond(503),
        lambda route: route.respond(200, text="not JSON"),
    ],
)
async def test_a_replica_that_fails_is_left_alone_for_a_while(
    answer: Callable[[respx.Route], object], remote: RemoteReader, clock: Clock, respx_mock: respx.MockRouter
) -> None:
    route = respx_mock.post(f"{REPLICA}{CHAT}/render")
    answer(route)
    for _ in range(5):
        assert await remote.read(REPLICA, CHAT, HELLO) == Unscored(Reason.REMOTE)
    assert route.call_count == 2
    clock.now += 5
    for _ in range(5):
        await remote.read(REPLICA, CHAT, HELLO)
    assert route.call_count == 3
    clock.now += 5
    route.mock(return_value=httpx.Response(200, json={"token_ids": [1]}), side_effect=None)
    assert tokens(await remote.read(REPLICA, CHAT, HELLO)) == [[1]]


@pytest.mark.parametrize(
    "answer", [{}, [], {"token_ids": "x"}, {"token_ids": [-1]}, {"token_ids": [1], "features": 5}, [5]]
)
async def test_an_answer_that_makes_no_sense_is_no_prompt(
    answer: object, remote: RemoteReader, respx_mock: respx.MockRouter
) -> None:
    respx_mock.post(f"{REPLICA}{CHAT}/render").respond(json=answer)
    assert await remote.read(REPLICA, CHAT, HELLO) == Unscored(Reason.REMOTE)


async def test_what_no_cache_helps_is_not_asked(remote: RemoteReader) -> None:
    assert await remote.read(REPLICA, CHAT, HELLO | {"prompt_logprobs": 1}) == Unscored(Reason.PROMPT_LOGPROBS)


async def test_a_returning_replica_is_asked_anew(remote: RemoteReader, respx_mock: respx.MockRouter) -> None:
    render = respx_mock.post(f"{REPLICA}{CHAT}/render").respond(404)
    respx_mock.post(f"{REPLICA}/tokenize").respond(json={"tokens": [4]})
    assert tokens(await remote.read(REPLICA, CHAT, HELLO)) == [[4]]
    respx_mock.post(f"{REPLICA}/tokenize").respond(json={"tokens": [5, 6]})
    assert tokens(await remote.read(REPLICA, CHAT, HELLO)) == [[4]]
    remote.forget(REPLICA)
    assert tokens(await remote.read(REPLICA, CHAT, HELLO)) == [[5, 6]]
    assert render.call_count == 2
