"""What a replica that fails, sleeps or drains means to clients: nothing, as long as there is another one."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
from fake_replica import FakeReplica, fake_replica
from gateway_here import Here, gateway_here, until
from processes import eventually

from loadtest.replica.text import TOKENIZER

CHAT = "/v1/chat/completions"
ASLEEP = 'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0.0\n'
AWAKE = 'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 1.0\n'


def body(behaviour: str = "answer", **fields: object) -> dict[str, object]:
    return {"model": "fake", "messages": [], "behaviour": behaviour, **fields}


@dataclass
class Pair:
    """Two fake replicas behind one gateway that takes them in turn."""

    one: FakeReplica
    other: FakeReplica
    here: Here

    async def post(self, **fields: object) -> httpx.Response:
        return await self.here.client.post(self.here.url + CHAT, json=body(**fields))  # type: ignore[arg-type]

    async def states(self) -> dict[str, str]:
        """Each replica's state, by its URL."""
        found = [labels for labels, value in (await self.here.metric("kvgate_replica_state")).items() if value]
        return {"http://" + labels.split('"')[1]: labels.split('"')[3] for labels in found}


@asynccontextmanager
async def pair(**settings: object) -> AsyncIterator[Pair]:
    async with fake_replica() as one, fake_replica() as other:
        replicas = [{"url": one.url}, {"url": other.url}]
        async with gateway_here({"replicas": replicas, **settings}, joined=2) as here:
            yield Pair(one, other, here)


async def test_requests_that_make_every_engine_fail_take_nobody_away() -> None:
    async with pair() as world:
        world.one.status = world.other.status = 500
        for number in range(40):
            assert (await world.post(number=number // 20 * number)).status_code == 500
        assert set((await world.states()).values()) == {"ready"}
        world.one.status = world.other.status = 0
        for _ in range(4):
            assert (await world.post()).status_code == 200
        assert await world.here.metric("kvgate_ejections_total") == {}


async def test_one_that_fails_where_the_other_does_not_rests_and_comes_back() -> None:
    async with pair(ejection={"rest": 0.5}) as world:
        world.one.status = 500
        for number in range(12):
            await world.post(number=number)
        sent = len(world.one.requests)
        assert sent == 5
        world.one.status = 0

        async def back() -> bool:
            assert (await world.post()).status_code == 200
            return (await world.states())[world.one.url] == "ready" and len(world.one.requests) > sent

        await eventually(back, "it gets requests again")


async def test_errors_of_the_client_take_nobody_away() -> None:
    async with pair(ejection={"failures": 1}) as world:
        for status in (400, 404, 422, 429):
            world.one.status = status
            for _ in range(4):
                await world.post()
        assert set((await world.states()).values()) == {"ready"}


async def test_what_one_takes_not_now_the_other_gets() -> None:
    async with pair() as world:
        world.one.status = 503
        for _ in range(8):
            assert (await world.post()).status_code == 200
        assert len(world.other.requests) == 8
        world.other.status = 503
        answer = await world.post()
        assert (answer.status_code, answer.json()["error"]["message"]) == (503, "as the test says")
        assert int(answer.headers["retry-after"]) > 0
        assert set((await world.states()).values()) == {"ready"}


async def test_a_retry_budget_ends_retries_and_says_so() -> None:
    async with pair(limits={"retry_share": 0, "retry_reserve": 2}) as world:
        world.one.status = world.other.status = 503
        assert [(await world.post()).status_code for _ in range(10)] == [503] * 10
        refused = await world.here.metric("kvgate_retries_refused_total")
        assert refused == {'{reason="nobody"}': 1, '{reason="budget"}': 9}
        assert sum((await world.here.metric("kvgate_retries_total")).values()) == 2


async def test_one_that_takes_nothing_is_not_asked_for_each_request_until_the_budget_is_spent() -> None:
    async with pair(limits={"retry_share": 0, "retry_reserve": 10}) as world:
        world.one.status = 503
        assert [(await world.post()).status_code for _ in range(40)] == [200] * 40


async def test_a_replica_that_a_request_was_not_sent_to_again_is_not_expected_to_hold_it() -> None:
    settings = {"policy": "kv-aware", "models": {"fake": {"tokenizer": str(TOKENIZER)}}}
    async with pair(**settings, limits={"retry_share": 0, "retry_reserve": 0}) as world:
        await until(lambda: not world.here.gateway.missing(), "the tokenizer is loaded")
        world.one.status = world.other.status = 503
        messages = [{"role": "user", "content": "What nobody has computed. " * 40}]
        assert (await world.post(messages=messages)).status_code == 503
        assert await world.here.metric("kvgate_retries_refused_total") == {'{reason="budget"}': 1.0}
        answer = await world.here.client.post(world.here.url + "/explain", json=body(messages=messages))
        tokens = [candidate["tokens"] for candidate in answer.json()["candidates"]]
        assert len(tokens) == 2
        assert [(each["l0"], each["prefill"] > 100) for each in tokens] == [(0, True)] * 2


async def test_one_that_sleeps_or_is_paused_gets_nothing_until_it_is_awake() -> None:
    async with pair(probing={"interval": 0.05, "describe_interval": 0.1}) as world:

        async def becomes(state: str) -> None:
            async def holds() -> bool:
                return (await world.states()).get(world.one.url) == state

            await eventually(holds, f"the replica is {state}")

        async def none_goes_there() -> bool:
            before = len(world.one.requests)
            for _ in range(4):
                assert (await world.post()).status_code == 200
            return len(world.one.requests) == before

        world.one.gets["/metrics"] = ASLEEP
        await becomes("asleep")
        assert await none_goes_there()
        world.one.gets["/metrics"] = AWAKE
        await becomes("ready")
        world.one.gets["/is_paused"] = {"is_paused": True}
        await becomes("asleep")
        assert await none_goes_there()
        world.one.gets["/is_paused"] = {"is_paused": False}
        await becomes("ready")
        assert not await none_goes_there()


async def test_a_request_has_a_time_in_all() -> None:
    async with pair(limits={"total_timeout": 0.3}) as world:
        assert (await world.post(behaviour="never answer")).status_code == 504

        async def begun_and_cut() -> bool:
            answer = await world.post(behaviour="stream for ever", stream=True)
            assert "[DONE]" not in answer.text
            return answer.status_code == 200 and '"code": 504' in answer.text.splitlines()[-2]

        await eventually(begun_and_cut, "a stream that had begun in time is cut")


async def test_a_request_that_is_sent_again_has_no_more_time_for_it() -> None:
    async with pair(limits={"total_timeout": 0.6, "response_timeout": 60}) as world:
        world.one.status = 503
        for _ in range(2):
            assert (await world.post(behaviour="never answer")).status_code == 504
        assert sum((await world.here.metric("kvgate_retries_total")).values()) >= 1

        async def all_closed() -> bool:
            return world.other.open == 0 and await world.here.in_flight() == 0

        await eventually(all_closed, "nothing is left of it")


async def test_a_gateway_that_has_no_time_takes_nobody_for_dead() -> None:
    async with pair(probing={"interval": 0.01, "timeout": 0.3, "failures": 1}) as world:
        for _ in range(4):
            time.sleep(0.5)  # as whatever keeps the event loop
            await asyncio.sleep(0.03)
        assert set((await world.states()).values()) == {"ready"}
        assert len(await world.states()) == 2
        assert not any((await world.here.metric("kvgate_probe_failures_total")).values())
