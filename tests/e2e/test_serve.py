"""`kvgate serve` as an operator runs it."""

import asyncio
import json
import signal
import sys
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
import yaml
from fake_replica import FakeReplica, fake_replica
from gateway_here import gateway_here, until
from processes import Running, eventually, free_port, gateway_process, process

from gateway.config import Config
from gateway.serve import follow

BODY = {"model": "fake", "messages": []}


async def policy_of(gateway: str) -> str:
    async with httpx.AsyncClient() as client:
        answer = await client.post(gateway + "/v1/chat/completions", json=BODY)
        policy: str = answer.headers["x-kvgate-policy"]
        return policy


def rewrite(gateway: Running, fake: FakeReplica, **settings: object) -> None:
    assert gateway.config is not None
    listen = {"host": "127.0.0.1", "port": int(gateway.url.rsplit(":", 1)[1])}
    text = yaml.safe_dump({"listen": listen, "replicas": [{"url": fake.url}], **settings})
    new = gateway.config.with_suffix(".new")
    new.write_text(text)
    new.replace(gateway.config)


async def test_a_changed_file_takes_effect_and_running_requests_go_on(tmp_path: Path) -> None:
    async with fake_replica() as fake, gateway_process({"replicas": [{"url": fake.url}]}, tmp_path) as gateway:
        assert await policy_of(gateway.url) == "kv-aware"
        stream = {**BODY, "behaviour": "stream for ever", "stream": True}
        async with (
            httpx.AsyncClient() as client,
            client.stream("POST", gateway.url + "/v1/chat/completions", json=stream) as running,
        ):
            chunks = running.aiter_raw()
            await anext(chunks)
            rewrite(gateway, fake, policy="roundrobin")

            async def changed() -> bool:
                return await policy_of(gateway.url) == "round-robin"

            await eventually(changed, "the policy is the file's")
            assert b"data:" in await anext(chunks)
        # The log is beside it and has changed all the while.
        assert gateway.log.read_text().count("configuration read again") == 1


async def test_a_file_that_cant_be_used_is_refused_and_the_old_one_stays(tmp_path: Path) -> None:
    async with fake_replica() as fake, gateway_process({"replicas": [{"url": fake.url}]}, tmp_path) as gateway:
        rewrite(gateway, fake, policy="fastest")

        async def refused() -> bool:
            return "unknown policy 'fastest'" in gateway.log.read_text()

        await eventually(refused, "the refusal is logged")
        assert ":4: policy: " in gateway.log.read_text()
        assert await policy_of(gateway.url) == "kv-aware"


async def test_a_file_that_is_being_written_takes_no_replica_away(tmp_path: Path) -> None:
    async with fake_replica() as fake, gateway_process({"replicas": [{"url": fake.url}]}, tmp_path) as gateway:
        assert gateway.config is not None
        gateway.config.write_text("")

        async def refused() -> bool:
            return "no replica is named" in gateway.log.read_text()

        await eventually(refused, "the refusal is logged")
        assert await policy_of(gateway.url) == "kv-aware"


async def test_a_file_that_has_changed_while_the_gateway_started_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    file = tmp_path / "gateway.yaml"
    file.write_text("policy: session")
    async with gateway_here({}, joined=0) as here:
        known = {file: b"policy: round-robin"}
        following = asyncio.create_task(follow(file, Config(), known, lambda config: config, here.gateway))
        await until(lambda: "configuration read again: policy session" in caplog.text, "the file was read again")
        following.cancel()


async def test_a_hang_up_signal_reads_the_file_again(tmp_path: Path) -> None:
    async with fake_replica() as fake, gateway_process({"replicas": [{"url": fake.url}]}, tmp_path) as gateway:
        gateway.signal(signal.SIGHUP)

        async def read_again() -> bool:
            return "configuration read again" in gateway.log.read_text()

        await eventually(read_again, "the file was read again")
        assert await policy_of(gateway.url) == "kv-aware"


async def test_a_key_that_is_taken_out_of_its_file_counts_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "a-secret"
    folder.mkdir()
    keys, fewer = folder / "keys.yaml", folder / "fewer.yaml"
    both = [{"name": key, "sha256": sha256(key.encode()).hexdigest()} for key in ("a", "b")]
    keys.write_text(json.dumps(both))
    fewer.write_text(json.dumps(both[:1]))
    async with (
        fake_replica() as fake,
        gateway_process({"replicas": [{"url": fake.url}], "admission": {"keys_file": str(keys)}}, tmp_path) as gateway,
        httpx.AsyncClient() as client,
    ):

        async def status(key: str) -> int:
            headers = {"authorization": f"Bearer {key}"}
            return (await client.get(gateway.url + "/v1/models", headers=headers)).status_code

        assert [await status("a"), await status("b")] == [200, 200]
        fewer.replace(keys)

        async def taken_out() -> bool:
            return await status("b") == 401

        await eventually(taken_out, "the key is refused")
        assert await status("a") == 200


async def test_replicas_come_and_go_with_the_file(tmp_path: Path) -> None:
    async with (
        fake_replica() as one,
        fake_replica() as two,
        gateway_process({"replicas": [{"url": one.url}]}, tmp_path) as gateway,
        httpx.AsyncClient() as client,
    ):
        rewrite(gateway, two)

        async def moved() -> bool:
            replicas = (await client.get(gateway.url + "/readyz")).json()["replicas"]
            return bool(replicas == [two.url.removeprefix("http://")])

        await eventually(moved, "the one left, the other joined")


async def test_replicas_can_be_named_on_the_command_line_and_the_last_request_is_logged(
    tmp_path: Path,
) -> None:
    async with fake_replica() as fake:
        port = free_port()
        arguments = [
            "serve",
            "--replica",
            fake.url,
            "--port",
            str(port),
            "--host",
            "127.0.0.1",
            "--policy",
            "least_loaded",
        ]
        async with process(arguments, f"http://127.0.0.1:{port}", "/readyz", tmp_path / "log") as gateway:
            assert await policy_of(gateway.url) == "least-loaded"
        assert gateway.log.read_text().count('"logger":"kvgate.request"') == 1


async def test_without_a_replica_that_answers_it_is_a_503_with_retry_after(tmp_path: Path) -> None:
    port = free_port()
    arguments = ["serve", "--replica", f"http://127.0.0.1:{free_port()}", "--port", str(port)]
    async with (
        process(arguments, f"http://127.0.0.1:{port}", "/healthz", tmp_path / "log") as gateway,
        httpx.AsyncClient() as client,
    ):
        answer = await client.post(gateway.url + "/v1/chat/completions", json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_replica")
        assert int(answer.headers["retry-after"]) > 0
        assert (await client.get(gateway.url + "/readyz")).status_code == 503


async def test_nonsense_on_the_command_line_is_refused_with_status_2() -> None:
    for arguments, message in (
        (["serve"], "no replica is named"),
        (["serve", "--replica", "nonsense"], "--replicas"),
        (["serve", "--config", "/none.yaml"], "/none.yaml: No such file"),
    ):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway", *arguments, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await child.communicate()
        assert child.returncode == 2
        assert message in errors.decode()


async def test_other_paths_of_an_engine_are_relayed_and_administrative_ones_are_not(tmp_path: Path) -> None:
    async with (
        fake_replica() as fake,
        gateway_process({"replicas": [{"url": fake.url}]}, tmp_path) as gateway,
        httpx.AsyncClient() as client,
    ):
        body = b'{"model": "fake",  "input": "x", "unknown": [1.0, null]}'
        relayed = await client.post(gateway.url + "/detokenize", content=body)
        assert relayed.status_code == 200
        assert relayed.headers["x-kvgate-policy"] == "least-loaded"
        for path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/anything"):
            assert (await client.post(gateway.url + path, json={})).status_code == 404
        assert len(fake.requests) == 1
