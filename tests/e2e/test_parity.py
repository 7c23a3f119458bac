"""Prompts that are read otherwise than the engine reads them: noticed, said, and read by the engine from then on."""

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from processes import Running, all_joined, eventually, gateway_process, replicas_process

from gateway.prompt.parity import SHAPES
from loadtest.replica.text import TOKENIZER

OTHER_TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
BODY = {"model": "sim", "max_tokens": 1, "messages": [{"role": "user", "content": "How are you today? " * 30}]}


async def readiness(client: httpx.AsyncClient, gateway: Running) -> Mapping[str, object]:
    answer: Mapping[str, object] = (await client.get(gateway.url + "/readyz")).json()
    return answer


def without_template(folder: Path) -> Path:
    """The simulated replicas' tokenizer as a model has it that gets its template by `--chat-template`."""
    copy = folder / "tokenizer"
    shutil.copytree(TOKENIZER, copy)
    config = json.loads((copy / "tokenizer_config.json").read_text())
    del config["chat_template"]
    (copy / "tokenizer_config.json").write_text(json.dumps(config))
    return copy


@pytest.mark.parametrize("template", [OTHER_TEMPLATE, None], ids=["another", "none"])
async def test_a_wrong_template_is_noticed_and_predictions_are_exact_all_the_same(
    template: str | None, tmp_path: Path
) -> None:
    if template is None:
        model = {"tokenizer": str(without_template(tmp_path))}
    else:
        file = tmp_path / "template.jinja"
        file.write_text(template)
        model = {"chat_template": str(file), "tokenizer": str(TOKENIZER)}
    async with replicas_process(1, tmp_path, "--time-scale", "0.05") as urls, httpx.AsyncClient() as client:
        settings = {
            "replicas": [{"url": url} for url in urls],
            "models": {"sim": model},
        }
        async with gateway_process(settings, tmp_path) as gateway:

            async def noticed() -> bool:
                return (await readiness(client, gateway))["status"] == "degraded"

            await eventually(noticed, "the difference is noticed")
            for _ in range(2):
                answer = await client.post(gateway.url + "/v1/chat/completions", json=BODY)
                reported = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
                assert int(answer.headers["x-kvgate-cached-tokens"]) == reported
            assert reported > 0
            metrics = (await client.get(gateway.url + "/metrics")).text
            different = [
                line for line in metrics.splitlines() if 'outcome="different"' in line and line.endswith(" 1.0")
            ]
            assert any('shape="plain"' in line for line in different)
            assert "How are you" not in gateway.log.read_text()


async def test_a_right_template_is_found_right(tmp_path: Path) -> None:
    async with (
        replicas_process(1, tmp_path) as urls,
        gateway_process({"replicas": [{"url": urls[0]}]}, tmp_path) as gateway,
        httpx.AsyncClient() as client,
    ):
        await all_joined(gateway.url, 1)

        async def compared() -> bool:
            return "kvgate_parity{" in (await client.get(gateway.url + "/metrics")).text

        await eventually(compared, "the replica was compared")
        assert (await readiness(client, gateway))["status"] == "ready"


async def check(*arguments: str) -> tuple[int, str]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "check", *arguments),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"COLUMNS": "200"},
    )
    out, _ = await child.communicate()
    assert child.returncode is not None
    return child.returncode, out.decode()


async def test_check_finds_nothing_wrong_with_a_good_replica_and_names_what_is_wrong(tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text(OTHER_TEMPLATE)
    config = tmp_path / "config.yaml"
    async with replicas_process(1, tmp_path) as urls:
        status, out = await check("--replica", urls[0])
        assert (status, "nothing found that costs hits" in out) == (0, True), out
        assert all(re.search(f"{shape} +│ 1 +│ 0 +│ 0 ", out) for shape in SHAPES)
        columns = ["replica", "reachable", "model", "vLLM", "engines", "block.size", "events", "replay", "parity"]
        assert all(re.search(rf"┃ +{column} ", out) for column in columns), out
        config.write_text(
            f"replicas: [{{url: {urls[0]}}}]\nmodels: {{sim: {{tokenizer: {without_template(tmp_path)}}}}}\n"
        )
        status, out = await check("--config", str(config))
        assert (status, "parity: plain: one reads it, the other refuses it" in out) == (1, True), out
        stored = tmp_path / "stored"
        stored.mkdir()
        (stored / "vllm@another@1@0@0a1b@bfloat16.data").write_bytes(b"kv")
        config.write_text(
            f"replicas: [{{url: {urls[0]}}}]\nl2: {{path: {stored}, models: {{sim: {{hash: sha256_cbor}}}}}}\n"
        )
        status, out = await check("--config", str(config))
        assert (status, "shared storage of sim: 0 of the last 1 files" in out) == (1, True), out
        config.write_text(
            f"replicas: [{{url: {urls[0]}, kv_events: tcp://127.0.0.1:9}}]\n"
            f"models: {{sim: {{chat_template: {template}, tokenizer: {TOKENIZER}}}}}\n"
        )
        status, out = await check("--config", str(config))
    assert status == 1
    assert "nothing listens at tcp://127.0.0.1:9" in out
    assert "no replay endpoint" in out
    assert "parity: plain: token 0" in out
    assert re.search("plain +│ 0 +│ 1 ", out)
    status, out = await check("--replica", urls[0])
    assert (status, "reachable" in out) == (1, True)
