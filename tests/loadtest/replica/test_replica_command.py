import argparse
import asyncio
import socket

import httpx
import pytest

from loadtest.processes import consecutive_free_ports, python
from loadtest.replica.command import Replica


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    Replica().add_arguments(parser)
    return parser.parse_args(arguments)


async def test_each_replica_has_its_own_ports_and_cache() -> None:
    port, kv_port = consecutive_free_ports(2), consecutive_free_ports(4)
    urls = [f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"]
    command = ["-m", "loadtest.replica", "--port", str(port), "--kv-port", str(kv_port), "--count", "2"]
    command += ["--kv-topic", "kv@here"]
    body = {"prompt": [1] * 40, "max_tokens": 1}
    async with (
        python([*command, "--time-scale", "0.01"], [f"{url}/health" for url in urls]),
        httpx.AsyncClient() as client,
    ):
        sources = [(await client.get(f"{url}/kv_event_sources")).json()["0"] for url in urls]
        cached = [
            (await client.post(f"{url}/v1/completions", json=body)).json()["usage"]["prompt_tokens_details"][
                "cached_tokens"
            ]
            for url in (urls[0], urls[0], urls[1])
        ]
    ports = [source[key] for source in sources for key in ("endpoint", "replay_endpoint")]
    assert {source["topic"] for source in sources} == {"kv@here"}
    assert ports == [f"tcp://127.0.0.1:{kv_port + offset}" for offset in range(4)]
    assert cached == [0, 32, 0]


async def test_a_replica_that_restarts_by_itself_comes_back_with_an_empty_cache_at_the_same_place() -> None:
    port, kv_port = consecutive_free_ports(1), consecutive_free_ports(2)
    url = f"http://127.0.0.1:{port}"
    command = ["-m", "loadtest.replica", "--port", str(port), "--kv-port", str(kv_port), "--restart-every", "1"]
    body = {"prompt": [1] * 40, "max_tokens": 1}
    cached: list[int] = []
    async with (
        asyncio.timeout(60.0),
        python([*command, "--time-scale", "0.01"], [f"{url}/health"]),
        httpx.AsyncClient() as client,
    ):
        # It is found in one life, and in the next it is not.
        while not (32 in cached and cached[-1] == 0):
            try:
                answer = await client.post(f"{url}/v1/completions", json=body)
            except httpx.TransportError:
                continue  # between two lives
            if answer.is_success:
                cached.append(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert set(cached) == {0, 32}


def test_a_taken_port_is_named_and_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        free = str(consecutive_free_ports(2))
        assert Replica().run(parsed("--port", port, "--kv-port", free)) == 1
        assert Replica().run(parsed("--port", free, "--kv-port", port)) == 1
    assert capsys.readouterr().err.count("kvgate replica: ") == 2


@pytest.mark.parametrize(
    "arguments", [("--count", "0"), ("--block-size", "-1"), ("--time-scale", "0"), ("--profile", "x")]
)
def test_nonsense_is_refused(arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(*arguments)
    assert arguments[0] in capsys.readouterr().err
