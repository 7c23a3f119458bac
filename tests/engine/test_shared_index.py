"""Two gateways that share an index, in front of two real replicas; the one that follows both replicas is killed."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from openai import OpenAI
from valkey_server import valkey

from tests.engine.exchange import Verdict
from tests.engine.gateway_server import GatewayServer
from tests.engine.prompts import ask
from tests.engine.threads import Shape, Threads
from tests.engine.vllm_cpu.server import VllmServer
from tests.engine.waiting import wait_until
from tests.engine.witness import Witness

CHATS = Shape(threads=12, turns=5, groups=3, shared=200, question=60)
IN_FLIGHT = 3
OWNED = "kvgate_index_owned"


@pytest.fixture
def gateways(replicas: list[VllmServer], ports: Iterator[int], tmp_path: Path) -> Iterator[list[GatewayServer]]:
    with valkey() as server:
        settings = {
            "replicas": [{"url": replica.url} for replica in replicas],
            "index": {"redis_url": server.url, "lease": 1.0, "deadline_ms": 200},
        }
        folders = [tmp_path / name for name in ("owner", "survivor")]
        for folder in folders:
            folder.mkdir()
        with (
            GatewayServer(next(ports), settings, folders[0]) as owner,
            GatewayServer(next(ports), settings, folders[1]) as survivor,
        ):
            yield [owner, survivor]


def test_who_survives_the_owner_of_both_replicas_knows_their_blocks_exactly(
    gateways: list[GatewayServer], replicas: list[VllmServer], control: httpx.Client, verdicts: Counter[Verdict]
) -> None:
    owner, survivor = gateways
    survivor.freeze()
    wait_until("one gateway follows both", lambda: owner.metric(OWNED) == len(replicas))
    before, after = (Threads(gateway.url, CHATS, "chats", control) for gateway in gateways)
    with (
        ThreadPoolExecutor(2) as clients,
        OpenAI(base_url=f"{survivor.url}/v1", api_key="none", max_retries=0, timeout=60.0) as client,
    ):
        witness = Witness(survivor, replicas, client, control, verdicts)
        cut_short = clients.submit(before.play, IN_FLIGHT)
        wait_until("conversations", lambda: len(before.turns) >= CHATS.threads * 2, patience=60.0)
        survivor.thaw()
        owner.kill()
        whole = clients.submit(after.play, IN_FLIGHT)
        asked = 0
        while survivor.metric(OWNED) < len(replicas) or not asked:
            asked += 1
            witness.chat(ask(f"while nobody follows {asked % 3}"))
        whole.result()
        with suppress(httpx.HTTPError):
            cut_short.result()
        blind = list(witness.exchanges)
        witness.settle([turn.tokens for turn in (*before.turns, *after.turns)])
        assert all((exchange.predicted or 0) <= exchange.reported for exchange in blind), "more than there is"
        for number in range(6):
            for _ in range(2):
                witness.chat(ask(f"after it {number}"))
                assert witness.settle() == {Verdict.EXACT: 1}
