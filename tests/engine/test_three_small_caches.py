"""Three replicas of 9,600 tokens: how much is saved of what one endless cache would save, and how even the work is."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.engine.gateway_server import GatewayServer
from tests.engine.settled import settled
from tests.engine.threads import SHAPES, Threads
from tests.engine.vllm_cpu.server import MODEL, Ports, VllmServer, boot

pytestmark = pytest.mark.measured

BLOCKS = 301
"""of which 300 are usable"""
SHARE = {"chat": 0.98, "tools": 0.97, "hot": 0.98, "rag": 0.98, "unique": 0.0}


@pytest.fixture(scope="module")
def small(
    binaries: Path, model: Path, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[VllmServer]]:
    folder = tmp_path_factory.mktemp("small")
    with ExitStack() as running:
        servers = [
            running.enter_context(
                VllmServer(
                    binaries,
                    model,
                    Ports(next(ports), next(ports), next(ports)),
                    folder / f"{number}.log",
                    BLOCKS,
                    arguments=("--max-num-batched-tokens", "2048"),
                )
            )
            for number in range(3)
        ]
        boot(servers)
        yield servers


@pytest.fixture(scope="module")
def front(
    small: list[VllmServer], ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayServer]:
    settings = {"policy": "kv-aware", "replicas": [{"url": replica.url} for replica in small]}
    with GatewayServer(next(ports), settings, tmp_path_factory.mktemp("front")) as server:
        yield server


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("in_flight", [6, 1])
@pytest.mark.parametrize("name", SHAPES)
def test_the_fleets_memory_is_used_as_one(
    name: str, in_flight: int, seed: int, small: list[VllmServer], front: GatewayServer, control: httpx.Client
) -> None:
    for replica in small:
        control.post(f"{replica.url}/reset_prefix_cache").raise_for_status()
        # The cleared event goes out with the next step; a block is stored, so that it tells its size.
        control.post(f"{replica.url}/v1/completions", json={"model": MODEL, "prompt": "x " * 40, "max_tokens": 1})
        settled(front, replica, 0)
    threads = Threads(front.url, SHAPES[name], f"{name} {in_flight} {seed}", control)
    threads.play(in_flight)
    hit, ideal = threads.hit_ratio(), threads.ideal()
    even, moved = threads.max_over_mean(len(small)), threads.moved()
    print(f"{name} {in_flight} in flight, seed {seed}: {hit:.4f} of {ideal:.4f}, {even:.3f}, {moved:.3f}")
    assert hit >= SHARE[name] * ideal
    assert even <= 1.25
    assert moved < 0.05
