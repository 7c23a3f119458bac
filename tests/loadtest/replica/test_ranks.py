"""Several data-parallel ranks behind one URL, as a real engine has them (captures dp0 and dp1)."""

from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest
import pytest_asyncio
import zmq
import zmq.asyncio

from loadtest.replica.serve import ReplicaSettings, Served, serve
from loadtest.replica.text import Text


@pytest_asyncio.fixture
async def replica(text: Text) -> AsyncIterator[Served]:
    async with serve(ReplicaSettings(blocks=65, time_scale=0.01, ranks=2), text) as served:
        yield served


async def asked(replica: Served, rank: str | None, prompt: int = 1) -> httpx.Response:
    headers = {} if rank is None else {"X-data-parallel-rank": rank}
    async with httpx.AsyncClient() as client:
        body = {"prompt": [prompt] * 40, "max_tokens": 1}
        return await client.post(f"{replica.url}/v1/completions", json=body, headers=headers)


def cached(answer: httpx.Response) -> int:
    return int(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])


async def test_each_rank_has_a_cache_of_its_own_and_the_caller_says_which_one_takes_its_request(
    replica: Served,
) -> None:
    answers = [await asked(replica, rank) for rank in ("0", "0", "1", "1")]
    assert [cached(answer) for answer in answers] == [0, 32, 0, 32]


@pytest.mark.parametrize("rank", ["2", "7"])
async def test_a_rank_that_is_not_there_is_refused(replica: Served, rank: str) -> None:
    answer = await asked(replica, rank)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestError")


@pytest.mark.parametrize("rank", [None, "first"])
async def test_who_names_none_may_get_either(replica: Served, rank: str | None) -> None:
    for prompt in range(1, 5):
        await asked(replica, rank, prompt)
    assert all(len(engine.cache.pool.cached_hashes()) > 0 for engine in replica.engines)


async def test_each_rank_tells_of_itself_at_its_own_address_and_under_its_own_label(replica: Served) -> None:
    async with httpx.AsyncClient() as client:
        sources = (await client.get(f"{replica.url}/kv_event_sources")).json()
        assert [sources[rank]["endpoint"] for rank in ("0", "1")] == [one.endpoint for one in replica.publishers]
        await asked(replica, "1")
        text = (await client.get(f"{replica.url}/metrics")).text
    queries = [line for line in text.splitlines() if line.startswith("vllm:prefix_cache_queries_total")]
    assert [('engine="0"' in line, 'engine="1"' in line, line.endswith(" 0.0")) for line in queries] == [
        (True, False, True),
        (False, True, False),
    ]
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(sources["1"]["replay_endpoint"])
        await socket.send_multipart([b"", bytes(8)])
        _, _, _, payload = await socket.recv_multipart()
        _, events, rank = msgspec.msgpack.decode(payload)
    assert (events[0]["type"], rank) == ("BlockStored", 1)
