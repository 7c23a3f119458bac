import asyncio
import socket
import time

import httpx
import pytest
import respx

from gateway.fleet.probe import Probe, ProbeError, parse_metrics, replica_id
from routing.fleet import Task
from routing.load import Report

URL = "http://10.0.0.1:8000"
METRICS = """# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79596956788e+09
# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:cache_config_info{block_size="32",engine="0",num_gpu_blocks="130",num_cpu_blocks="None"} 1.0
vllm:cache_config_info{block_size="None",engine="1",num_gpu_blocks="None"} 1.0
"""


def probe(client: httpx.AsyncClient) -> Probe:
    return Probe(client, URL, timeout=1.0)


@pytest.mark.parametrize(
    ("url", "id"),
    [
        ("http://10.0.0.1:8000", "10.0.0.1:8000"),
        ("http://vllm", "vllm:80"),
        ("https://vllm", "vllm:443"),
        ("http://[fd00::7]:8000", "[fd00::7]:8000"),
    ],
)
def test_a_replica_is_named_by_its_network_place(url: str, id: str) -> None:
    assert replica_id(url) == id


def test_each_rank_has_figures_of_its_own() -> None:
    exposition = parse_metrics(METRICS)
    assert exposition.started == 1795969567.88
    assert exposition.engines[0].report == Report(running=3, waiting=2, kv_usage=0.25)
    assert exposition.engines[1].report == Report(running=1)
    assert (exposition.engines[0].block_size, exposition.engines[0].capacity_blocks) == (32, 129)
    assert (exposition.engines[1].block_size, exposition.engines[1].capacity_blocks) == (None, None)


def test_another_programs_metrics_say_nothing() -> None:
    assert parse_metrics("up 1\n").engines == {}


@respx.mock
async def test_a_replica_is_described_by_its_models_and_metrics() -> None:
    models = [
        {"id": "m", "root": "/models/m", "parent": None, "max_model_len": 4096, "created": 5, "owned_by": "vllm"},
        {"id": "lora", "root": "/loras/l", "parent": "m"},
    ]
    respx.get(URL + "/v1/models").respond(json={"data": models})
    respx.get(URL + "/metrics").respond(text=METRICS)
    respx.get(URL + "/pooling").respond(404)
    async with httpx.AsyncClient() as client:
        replica = await probe(client).describe()
    assert replica.task is None
    assert (replica.id, replica.ranks, replica.block_size, replica.capacity_blocks) == ("10.0.0.1:8000", 2, 32, 129)
    assert (replica.base.id, replica.base.root, replica.base.max_model_len) == ("m", "/models/m", 4096)
    assert replica.is_adapter("lora")


@pytest.mark.parametrize(
    ("routes", "task"),
    [
        ({"/pooling", "/v1/embeddings", "/score"}, Task.EMBED),
        ({"/pooling", "/classify", "/score"}, Task.CLASSIFY),
        ({"/pooling", "/score"}, Task.TOKENS),
        ({"/pooling", "/v1/embeddings", "/classify", "/score"}, None),  # an older engine
        (set(), None),
    ],
)
@respx.mock
async def test_what_a_model_does_shows_in_the_routes_that_are_served(routes: set[str], task: Task | None) -> None:
    respx.get(URL + "/v1/models").respond(json={"data": [{"id": "m"}]})
    respx.get(URL + "/metrics").respond(text=METRICS)
    respx.get(url__regex=URL + "/.*").mock(
        side_effect=lambda request: httpx.Response(405 if request.url.path in routes else 404)
    )
    async with httpx.AsyncClient() as client:
        assert (await probe(client).describe()).task is task


@respx.mock
@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(200, text="not JSON"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"data": []}),
        httpx.Response(200, json={"data": [{"name": "m"}]}),
    ],
)
async def test_a_server_that_is_no_engine_is_not_taken_in(answer: httpx.Response) -> None:
    respx.get(URL + "/v1/models").mock(return_value=answer)
    respx.get(URL + "/metrics").respond(text="")
    async with httpx.AsyncClient() as client:
        with pytest.raises(ProbeError) as failure:
            await probe(client).describe()
    assert not failure.value.refused


@respx.mock
async def test_a_refused_connection_is_told_from_a_slow_answer() -> None:
    route = respx.get(URL + "/health")
    async with httpx.AsyncClient() as client:
        route.mock(side_effect=httpx.ConnectError("refused"))
        with pytest.raises(ProbeError) as refused:
            await probe(client).healthy()
        route.mock(side_effect=httpx.ReadTimeout(""))
        with pytest.raises(ProbeError) as slow:
            await probe(client).healthy()
        route.mock(return_value=httpx.Response(503))
        assert not await probe(client).healthy()
    assert (refused.value.refused, slow.value.refused) == (True, False)


async def test_a_process_that_is_late_itself_blames_nobody() -> None:
    server = socket.create_server(("127.0.0.1", 0))  # which nobody accepts from
    url = f"http://127.0.0.1:{server.getsockname()[1]}"
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient() as client:
        with pytest.raises(ProbeError) as slow:
            await Probe(client, url, timeout=1.0).healthy()
        loop.call_later(0.15, time.sleep, 0.5)
        with pytest.raises(ProbeError) as late:
            await Probe(client, url, timeout=0.2).healthy()
    server.close()
    assert (slow.value.late, late.value.late) == (False, True)


@respx.mock
async def test_an_engine_without_the_route_has_no_event_sources() -> None:
    route = respx.get(URL + "/kv_event_sources").respond(404)
    async with httpx.AsyncClient() as client:
        assert await probe(client).event_sources() is None
        route.respond(json={})
        sources = await probe(client).event_sources()
    assert sources is not None
    assert sources.reason is not None
