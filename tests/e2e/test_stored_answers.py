"""An answer that an engine keeps is asked for where it is."""

from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

import httpx
import pytest
from fake_replica import fake_replica
from gateway_here import gateway_here
from processes import all_joined, gateway_process

from routing.types import ReplicaId


async def test_what_refers_to_an_answer_goes_to_the_replica_that_gave_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        fakes = [await stack.enter_async_context(fake_replica()) for _ in range(3)]
        settings = {"policy": "round-robin", "replicas": [{"url": fake.url} for fake in fakes]}
        gateway = await stack.enter_async_context(gateway_process(settings, tmp_path))
        await all_joined(gateway.url, 3)
        client = await stack.enter_async_context(httpx.AsyncClient())
        url = gateway.url + "/v1/responses"
        homes = {}
        for number in range(3):
            answer_id = f"resp_{number}"
            answer = await client.post(
                url, json={"model": "fake", "input": "x", "behaviour": "answer", "id": answer_id}
            )
            assert answer.json()["id"] == answer_id
            homes[answer_id] = answer.headers["x-kvgate-replica"]
        assert len(set(homes.values())) == 3
        for answer_id, home in [*homes.items(), *homes.items()]:
            follow_up = {"model": "fake", "input": "y", "previous_response_id": answer_id}
            assert (await client.post(url, json=follow_up)).headers["x-kvgate-replica"] == home
            assert (await client.get(f"{url}/{answer_id}")).headers["x-kvgate-replica"] == home
            assert (await client.post(f"{url}/{answer_id}/cancel")).headers["x-kvgate-replica"] == home  # as OpenAI's


async def test_an_answer_is_found_while_it_is_streamed_and_after_its_client_has_left() -> None:
    async with AsyncExitStack() as stack:
        fakes = [await stack.enter_async_context(fake_replica()) for _ in range(3)]
        replicas = [{"url": fake.url} for fake in fakes]
        here = await stack.enter_async_context(gateway_here({"replicas": replicas}, joined=3))
        url = here.url + "/v1/responses"
        body = {"model": "fake", "input": "x", "stream": True, "behaviour": "stream for ever", "id": "resp_1"}
        async with here.client.stream("POST", url, json=body) as running:
            await anext(running.aiter_raw())
            home = running.headers["x-kvgate-replica"]
            cancelled = await here.client.post(f"{url}/resp_1/cancel")
            assert (cancelled.status_code, cancelled.headers["x-kvgate-replica"]) == (200, home)
        for _ in range(3):
            assert (await here.client.get(f"{url}/resp_1")).headers["x-kvgate-replica"] == home


async def test_an_answer_is_asked_for_nowhere_else_when_its_replica_is_busy_or_new() -> None:
    async with (
        fake_replica() as one,
        fake_replica() as other,
        gateway_here(
            {"replicas": [{"url": one.url}, {"url": other.url}], "ejection": {"slow_start": 3600}}, joined=2
        ) as here,
    ):
        url = here.url + "/v1/responses"
        given = await here.client.post(url, json={"model": "fake", "input": "x", "behaviour": "answer", "id": "r1"})
        id = ReplicaId(given.headers["x-kvgate-replica"])
        home = one if one.url.endswith(id) else other
        here.gateway.health.left(id)
        here.gateway.health.joined(id, monotonic() + 3600)
        follow_up = {"model": "fake", "input": "y", "previous_response_id": "r1"}
        for _ in range(20):
            assert (await here.client.post(url, json=follow_up)).headers["x-kvgate-replica"] == id
        home.status = 503
        asked = len(one.requests) + len(other.requests)
        assert (await here.client.post(url, json=follow_up)).status_code == 503
        assert len(one.requests) + len(other.requests) == asked + 1


@pytest.mark.parametrize("settings", [{"traffic_log": {"path": "traffic.jsonl"}}, {"shadow_policy": "kv-aware"}, {}])
async def test_an_answer_that_is_asked_for_again_is_no_prompt_and_not_counted_twice(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], **settings}) as here:
        url = here.url + "/v1/responses"
        stored = {"id": "r1", "usage": {"input_tokens": 5, "output_tokens": 2}}
        fake.gets["/v1/responses/r1"] = stored
        for _ in range(3):
            assert (await here.client.get(url + "/r1")).json() == stored
            assert (await here.client.post(url + "/r1/cancel")).status_code == 200
        assert await here.metric("kvgate_prompt_tokens_total") == {'{model="fake",policy="least-loaded"}': 0.0}
        assert await here.metric("kvgate_unscored_total") == {}
