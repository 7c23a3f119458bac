"""One replica with two data-parallel ranks: two caches, two event streams, one URL."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from openai import OpenAI

from tests.engine.exchange import Verdict
from tests.engine.gateway_server import GatewayServer
from tests.engine.oracle import held_by
from tests.engine.prompts import ask, token_ids
from tests.engine.vllm_cpu.server import MODEL, Ports, VllmServer
from tests.engine.witness import Witness

EXACT = Verdict.EXACT


@pytest.fixture(scope="module")
def replica(
    binaries: Path, model: Path, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmServer]:
    log = tmp_path_factory.mktemp("data-parallel") / "replica.log"
    http, events, events_of_rank_1, replay, replay_of_rank_1 = (next(ports) for _ in range(5))
    assert (events_of_rank_1, replay_of_rank_1) == (events + 1, replay + 1)
    with VllmServer(binaries, model, Ports(http, events, replay), log, ranks=2) as server:
        server.start()
        server.wait_until_ready()
        yield server


@pytest.fixture
def two_ranks(
    replica: VllmServer,
    ports: Iterator[int],
    control: httpx.Client,
    verdicts: Counter[Verdict],
    tmp_path: Path,
) -> Iterator[Witness]:
    with (
        GatewayServer(next(ports), {"replicas": [{"url": replica.url}]}, tmp_path) as gateway,
        OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60.0) as client,
    ):
        yield Witness(gateway, [replica], client, control, verdicts)


def test_predictions_are_exact_because_the_gateway_chooses_the_rank(two_ranks: Witness) -> None:
    for number in range(10):
        for expected in (False, True):
            two_ranks.chat(ask(f"two ranks {number}"))
            assert two_ranks.settle() == {EXACT: 1}
            assert (two_ranks.last.reported > 0) == expected
    (replica,) = two_ranks.replicas
    assert all(held_by(address).count("GPU") > 0 for address in replica.replays)


def test_events_of_both_ranks_are_taken_wherever_the_engine_puts_a_request(
    two_ranks: Witness, replica: VllmServer, control: httpx.Client
) -> None:
    for number in range(12):
        prompt = token_ids(f"direct {number}", 100)
        direct = {"model": MODEL, "prompt": prompt, "max_tokens": 1}
        control.post(f"{replica.url}/v1/completions", json=direct).raise_for_status()
        two_ranks.settle()
        two_ranks.complete(prompt)
        assert two_ranks.settle() == {EXACT: 1}
        assert two_ranks.last.reported > 0
