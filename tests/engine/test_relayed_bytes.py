"""A client gets through the gateway, byte for byte, what the engine would have sent it."""

import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.engine.gateway_server import GatewayServer
from tests.engine.prompts import ask, prose
from tests.engine.vllm_cpu.server import MODEL
from tests.engine.waiting import wait_until

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
CONTINUOUS = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
NO_USAGE = {"stream": True, "stream_options": {"include_usage": False}}


def body(path: str, more: Mapping[str, Any]) -> dict[str, Any]:
    prompt = {"messages": ask("relayed bytes")} if path == CHAT else {"prompt": prose("relayed bytes", 120)}
    return {"model": MODEL, **prompt, "max_tokens": 6, "temperature": 0, **more}


def timeless(answer: bytes) -> bytes:
    """Without what two equal requests answer differently."""
    return re.sub(rb'"(id|created)":("[^"]*"|\d+)', rb'"\1":0', answer)


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("more", [{}, {"stream": True}, NO_USAGE, USAGE, CONTINUOUS], ids=str)
def test_an_answer_has_the_bytes_that_the_engine_sends(
    gateway: GatewayServer, control: httpx.Client, path: str, more: Mapping[str, Any]
) -> None:
    control.post(f"{gateway.url}{path}", json=body(path, more)).raise_for_status()

    def answers() -> tuple[httpx.Response, httpx.Response]:
        relayed = control.post(f"{gateway.url}{path}", json=body(path, more)).raise_for_status()
        direct = control.post(f"http://{relayed.headers['x-kvgate-replica']}{path}", json=body(path, more))
        return relayed, direct.raise_for_status()

    # A busy engine sends two tokens in one chunk now and then, so two of its own answers may be cut differently.
    relayed, direct = answers()
    for _ in range(9):
        if timeless(relayed.content) == timeless(direct.content):
            break
        relayed, direct = answers()
    assert timeless(relayed.content) == timeless(direct.content)
    assert relayed.headers["content-type"] == direct.headers["content-type"]


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_a_client_that_did_not_ask_for_usage_sees_none_and_its_prediction_is_checked_all_the_same(
    gateway: GatewayServer, control: httpx.Client, path: str
) -> None:
    before = gateway.metric("kvgate_predictions_total", outcome="exact")
    answer = control.post(f"{gateway.url}{path}", json=body(path, {"stream": True})).raise_for_status()
    assert b"usage" not in answer.content
    assert answer.content.endswith(b"data: [DONE]\n\n")
    wait_until(
        "the prediction counted as exact",
        lambda: gateway.metric("kvgate_predictions_total", outcome="exact") == before + 1,
    )


def test_an_error_has_the_bytes_that_the_engine_sends(
    gateway: GatewayServer, control: httpx.Client, replicas: list[Any]
) -> None:
    wrong = body(CHAT, {"max_tokens": -1})
    relayed = control.post(f"{gateway.url}{CHAT}", json=wrong)
    direct = control.post(f"{replicas[0].url}{CHAT}", json=wrong)
    assert relayed.status_code == direct.status_code == 400
    assert relayed.content == direct.content
