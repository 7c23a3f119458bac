"""The gateway's tokens are the engine's, on every endpoint and for every shape of request."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openai import OpenAI

from gateway.prompt.reader import PromptReader, load
from gateway.prompt.result import EncodedPrompts
from gateway.prompt.settings import PromptSettings
from tests.engine.asker import Asker
from tests.engine.exchange import Verdict
from tests.engine.gateway_server import GatewayServer
from tests.engine.prompts import prose
from tests.engine.shapes import CHAT, COMPLETIONS, LIMITS, LONG, MESSAGES, REFUSED, RESPONSES, SHAPES, UNSCORED, plain
from tests.engine.vllm_cpu.server import BLOCK_SIZE, CONTEXT, MODEL, Ports, VllmServer
from tests.engine.waiting import wait_until

ADAPTER = "mylora"
TELLING = Path(__file__).parent / "templates" / "telling.jinja"
PERSONA = {"persona": "a helper"}
SERVED: Mapping[str, object] = {"chat_template": str(TELLING), "default_chat_template_kwargs": PERSONA}
"""how the replica of these tests is started, as the gateway's configuration says it"""
ENDPOINTS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)
TAKING_IDS = (CHAT, RESPONSES, MESSAGES)
TOKENIZED = [
    *(
        f"{CHAT} {name}"
        for name in ("one message", "unicode", "name", "tools", "calls and results", "developer", "effort")
    ),
    *(f"{COMPLETIONS} {name}" for name in ("text", "texts", "ids", "lists of ids", "no special tokens")),
]
"""shapes that /tokenize can express"""


@pytest.fixture(scope="module")
def replica(
    binaries: Path, model: Path, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmServer]:
    """One that shows in its prompts all that a request says, serves an adapter and renders."""
    arguments = (
        *("--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"{ADAPTER}={model.parent / 'adapter'}"),
        *("--chat-template", str(TELLING), "--default-chat-template-kwargs", '{"persona": "a helper"}'),
        "--enable-scale-out",
    )
    log = tmp_path_factory.mktemp("prompt-identity") / "replica.log"
    where = Ports(next(ports), next(ports), next(ports))
    with VllmServer(binaries, model, where, log, blocks=600, arguments=arguments) as server:
        server.start()
        server.wait_until_ready()
        yield server


@contextmanager
def asking(
    replica: VllmServer, port: int, served: Mapping[str, object], folder: Path, verdicts: Counter[Verdict]
) -> Iterator[Asker]:
    """A client of a gateway of its own. served: what its configuration says of the model."""
    settings = {"replicas": [{"url": replica.url}], "models": {MODEL: served}}
    with (
        GatewayServer(port, settings, folder) as gateway,
        OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60.0) as client,
        httpx.Client(timeout=60.0) as control,
    ):
        yield Asker(gateway, replica, client, control, verdicts)


@pytest.fixture(scope="module")
def gateway_asked(
    replica: VllmServer, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asker]:
    with asking(replica, next(ports), SERVED, tmp_path_factory.mktemp("gateway"), Counter()) as asker:
        yield asker


@pytest.fixture
def asker(gateway_asked: Asker, verdicts: Counter[Verdict]) -> Asker:
    """Of a gateway that is told how the replica is served."""
    gateway_asked.verdicts = verdicts
    return gateway_asked


@pytest.fixture(scope="module")
def reader(model: Path) -> PromptReader:
    """The gateway's own, in this process."""
    settings = PromptSettings(
        chat_template=TELLING.read_text(), default_template_arguments=PERSONA, max_model_len=CONTEXT
    )
    return load(model, settings)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_ids_are_the_engines(shape: str, asker: Asker, reader: PromptReader) -> None:
    endpoint, body = SHAPES[shape]
    theirs = asker.rendered(endpoint, body)
    ours = reader.read(endpoint, {**LIMITS[endpoint], **body})
    assert isinstance(ours, EncodedPrompts), ours
    assert tuple(tuple(prompt) for prompt in ours.prompts) == theirs
    assert asker.explain(endpoint, {**LIMITS[endpoint], **body})["prompt_tokens"] == sum(map(len, theirs))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_request_asked_again_is_predicted_exactly(shape: str, asker: Asker) -> None:
    endpoint, body = SHAPES[shape]
    first, second = asker.ask(endpoint, body), asker.ask(endpoint, body)
    for answer in (first, second):
        assert answer.predicted == answer.usage.cached
        assert answer.usage.prompt == sum(map(len, asker.rendered(endpoint, body)))
    assert second.usage.cached >= BLOCK_SIZE


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_stream_asked_again_is_predicted_exactly(endpoint: str, asker: Asker) -> None:
    body = plain(endpoint, prose(f"streamed from {endpoint}", 70))
    first, second = asker.stream(endpoint, body), asker.stream(endpoint, body)
    assert (first.predicted, first.usage.cached) == (0, 0)
    assert second.predicted == second.usage.cached >= 2 * BLOCK_SIZE


def test_the_gateways_own_count_of_its_predictions_is_exact(asker: Asker) -> None:
    for name in ("texts", "lists of ids"):
        asker.ask(*SHAPES[f"{COMPLETIONS} {name}"])
    gateway, exact = asker.gateway, {"outcome": "exact"}
    assert gateway.metric("kvgate_predictions_total") == gateway.metric("kvgate_predictions_total", **exact) > 0
    assert gateway.metric("kvgate_miscounted_prompts_total") == 0
    assert gateway.metric("kvgate_unscored_total") == 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_engine_refuses_is_refused_in_its_words(name: str, asker: Asker) -> None:
    endpoint, body = REFUSED[name]
    body = {"model": MODEL, **LIMITS[endpoint], **body}
    ours = asker.control.post(f"{asker.gateway.url}{endpoint}", json=body)
    theirs = asker.control.post(f"{asker.replica.url}{endpoint}", json=body)
    assert 400 <= theirs.status_code < 500
    assert (ours.status_code, ours.json()) == (theirs.status_code, theirs.json())
    assert asker.ask(CHAT, plain(CHAT, LONG)).exact


@pytest.mark.parametrize("reason", UNSCORED)
def test_what_is_not_scored_is_answered_and_counted(reason: str, asker: Asker) -> None:
    endpoint, body = UNSCORED[reason]
    counted = asker.gateway.metric("kvgate_unscored_total", endpoint=endpoint, reason=reason)
    body = {"model": MODEL, **LIMITS[endpoint], **body}
    answer = asker.control.post(f"{asker.gateway.url}{endpoint}", json=body).raise_for_status()
    assert "x-kvgate-cached-tokens" not in answer.headers
    assert asker.gateway.metric("kvgate_unscored_total", endpoint=endpoint, reason=reason) == counted + 1


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_two_salts_and_none_never_share(endpoint: str, asker: Asker) -> None:
    body = plain(endpoint, prose(f"salted on {endpoint}", 70))
    salts: tuple[Mapping[str, str], ...] = ({"cache_salt": "a"}, {"cache_salt": "b"}, {})
    for salt in salts:
        first, second = asker.ask(endpoint, {**body, **salt}), asker.ask(endpoint, {**body, **salt})
        assert (first.predicted, first.usage.cached) == (0, 0)
        assert second.predicted == second.usage.cached >= 2 * BLOCK_SIZE
    for salt in salts:
        assert asker.ask(endpoint, {**body, **salt}).predicted == second.predicted


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_model_and_its_adapter_never_share(endpoint: str, asker: Asker) -> None:
    body = plain(endpoint, prose(f"adapted on {endpoint}", 70))
    salted = {**body, "cache_salt": "a"}
    for model, request in ((MODEL, body), (ADAPTER, body), (ADAPTER, salted), (MODEL, salted)):
        first, second = asker.ask(endpoint, request, model), asker.ask(endpoint, request, model)
        assert (first.predicted, first.usage.cached) == (0, 0)
        assert second.predicted == second.usage.cached >= 2 * BLOCK_SIZE
    for model in (MODEL, ADAPTER):
        assert asker.ask(endpoint, body, model).predicted == second.predicted


@pytest.mark.parametrize("endpoint", TAKING_IDS)
@pytest.mark.parametrize("served", [MODEL, ADAPTER])
def test_a_completion_of_another_endpoints_ids_shares_its_cache(served: str, endpoint: str, asker: Asker) -> None:
    body = plain(endpoint, prose(f"as ids of {endpoint} {served}", 70))
    asker.ask(endpoint, body, served)
    (ids,) = asker.rendered(endpoint, body)
    answer = asker.ask(COMPLETIONS, {"prompt": ids}, served)
    assert answer.predicted == answer.usage.cached == (len(ids) - 1) // BLOCK_SIZE * BLOCK_SIZE


@pytest.mark.parametrize("endpoint", TAKING_IDS)
def test_ids_of_the_clients_do_not_replace_its_messages(endpoint: str, asker: Asker) -> None:
    body = plain(endpoint, prose(f"smuggled to {endpoint}", 70))
    (ids,) = asker.rendered(endpoint, body)
    smuggled = {**body, "kv_transfer_params": {"prompt_token_ids": list(range(1000, 1200)), "other": 1}}
    first, second = asker.ask(endpoint, smuggled), asker.ask(endpoint, body)
    assert first.usage.prompt == second.usage.prompt == len(ids)
    assert (first.predicted, first.usage.cached) == (0, 0)
    assert second.exact
    assert second.usage.cached >= 2 * BLOCK_SIZE


def test_every_shape_of_the_parity_check_is_equal(asker: Asker) -> None:
    gateway = asker.gateway
    wait_until(
        "the adapter compared",
        lambda: gateway.metric("kvgate_parity", shape="adapter_tools", outcome="equal") == 1,
    )
    equal = gateway.series("kvgate_parity", outcome="equal")
    assert set(equal) == {1.0}
    assert len(equal) >= 20
    assert gateway.admin.get("/readyz").json()["status"] == "ready"


@pytest.fixture(scope="module")
def with_ids(replica: VllmServer, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """Of a gateway that sends its ids along; they are others than the engine's where the persona is a witness."""
    folder = tmp_path_factory.mktemp("with-ids")
    template = folder / "template.jinja"
    testimony = "{% if persona == 'a witness' %}" + "They have seen it. " * 10 + "{% endif %}"
    template.write_text(testimony + TELLING.read_text())
    served = {**SERVED, "chat_template": str(template), "send_token_ids": True}
    with asking(replica, next(ports), served, folder, Counter()) as asker:
        yield asker


@pytest.mark.parametrize(
    "shape", [f"{CHAT} one message", f"{CHAT} tools", f"{CHAT} calls and results", f"{CHAT} parts",
              f"{RESPONSES} tools, calls and results", f"{MESSAGES} thinking, tool uses and results"],
)  # fmt: skip
def test_ids_sent_along_change_no_answer(shape: str, asker: Asker, with_ids: Asker, verdicts: Counter[Verdict]) -> None:
    with_ids.verdicts = verdicts
    endpoint, body = SHAPES[shape]
    body = {**body, **dict.fromkeys(LIMITS[endpoint], 24)}
    asker.ask(endpoint, body)
    without = asker.ask(endpoint, body)
    along = with_ids.ask(endpoint, body)
    assert along.exact
    assert along == without


@pytest.mark.parametrize("endpoint", TAKING_IDS)
def test_the_engine_goes_by_the_ids_that_it_is_sent(endpoint: str, with_ids: Asker, verdicts: Counter[Verdict]) -> None:
    with_ids.verdicts = verdicts
    body = {
        **plain(endpoint, prose(f"witnessed on {endpoint}", 70)),
        "chat_template_kwargs": {"persona": "a witness"},
        "kv_transfer_params": {"prompt_token_ids": [1, 2, 3]},
    }
    sent = with_ids.explain(endpoint, {**body, "kv_transfer_params": None})["prompt_tokens"]
    first, second = with_ids.ask(endpoint, body), with_ids.ask(endpoint, body)
    assert first.usage.prompt == second.usage.prompt == sent
    (ids,) = with_ids.rendered(endpoint, {**body, "kv_transfer_params": None})
    assert sent > len(ids)
    assert first.exact
    assert second.exact
    assert second.usage.cached >= 3 * BLOCK_SIZE


def test_a_wrong_template_is_noticed_and_prompts_are_read_where_the_replica_renders(
    replica: VllmServer, ports: Iterator[int], tmp_path: Path, verdicts: Counter[Verdict]
) -> None:
    with asking(replica, next(ports), {}, tmp_path, verdicts) as asker:
        _wait_until_degraded(asker)
        for endpoint, body in SHAPES.values():
            for _ in range(2):
                answer = asker.ask(endpoint, body)
                assert answer.exact
            assert answer.usage.cached >= BLOCK_SIZE


def test_a_wrong_template_is_noticed_and_prompts_are_read_where_the_replica_tokenizes(
    replicas: list[VllmServer], ports: Iterator[int], tmp_path: Path, verdicts: Counter[Verdict]
) -> None:
    with asking(replicas[0], next(ports), SERVED, tmp_path, verdicts) as asker:
        _wait_until_degraded(asker)
        for shape in TOKENIZED:
            endpoint, body = SHAPES[shape]
            for _ in range(2):
                answer = asker.ask(endpoint, body)
                assert answer.exact
            assert answer.usage.cached >= BLOCK_SIZE


def _wait_until_degraded(asker: Asker) -> None:
    def degraded() -> bool:
        readiness: Mapping[str, Any] = asker.gateway.admin.get("/readyz").json()
        return readiness["status"] == "degraded" and MODEL in " ".join(readiness["degraded"])

    wait_until("the gateway is degraded", degraded)


def test_check_finds_nothing_wrong_with_a_plain_replica(replicas: list[VllmServer]) -> None:
    status, shown = _check("--replica", replicas[0].url)
    assert status == 0, shown
    assert "nothing found that costs hits" in shown
    assert _column(shown, "block size") == str(BLOCK_SIZE)


def test_check_finds_nothing_wrong_with_a_replica_that_is_served_as_configured(
    replica: VllmServer, tmp_path: Path
) -> None:
    config = tmp_path / "kvgate.yaml"
    config.write_text(yaml.safe_dump({"replicas": [{"url": replica.url}], "models": {MODEL: SERVED}}))
    status, shown = _check("--config", str(config))
    assert status == 0, shown


def _check(*arguments: str) -> tuple[int, str]:
    """Status and output of `kvgate check`."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "check", *arguments],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def _column(shown: str, name: str) -> str:
    """What a table of one row has in the column of this name."""
    rows = [[cell.strip() for cell in re.split("[│┃]", line)] for line in shown.splitlines() if line[:1] in ("│", "┃")]
    return rows[1][rows[0].index(name)]
