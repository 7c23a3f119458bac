"""Everything that engines answer, and nothing that they administer."""

import asyncio
import gzip
import hashlib
import json
import logging
from typing import Any

import pytest
from fake_replica import fake_replica
from gateway_here import gateway_here, until

from gateway.api.paths import SCORED, UNSCORED

CHAT = "/v1/chat/completions"
ADMINISTRATIVE = [
    "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/sleep", "/wake_up", "/pause", "/resume", "/collective_rpc",
    "/reset_prefix_cache", "/reset_mm_cache", "/scale_elastic_ep", "/start_profile", "/update_weights", "/server_info",
    "/abort_requests", "/inference/v1/generate", "/v1/chat/completions/render", "/v1/realtime", "/v1/files", "/load",
]  # fmt: skip
BODY = (
    b'{ "model":"fake",\t"messages" : [{"role":"user","content":"gr\\u00fc\xc3\x9fe"}], "temperature": 1.0,'
    b' "top_p":1e-0, "seed": 12345678901234567890123, "logit_bias": null, "vllm_xargs": {"a": [1, 2.50]},'
    b' "cache_salt": "s", "priority": -1, "structured_outputs": {"regex": "a|b"}, "unknown": {"x": {}},'
    b' "n": 1, "n": 1 }\n'
)


async def test_every_path_of_an_engine_is_answered_by_one_that_got_the_body_as_it_was() -> None:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        for path in sorted(SCORED | UNSCORED - {"/tokenize"}):
            answer = await here.client.post(here.url + path, content=BODY)
            assert (path, answer.status_code, answer.headers["x-kvgate-replica"]) == (path, 200, fake.url[7:])
            assert (path, fake.raw[-1]) == (path, BODY)
            assert fake.heads[-1].startswith(f"post {path} ")
        fake.gets["/v1/responses/r1"] = {"id": "r1"}
        assert (await here.client.get(here.url + "/v1/responses/r1")).json() == {"id": "r1"}
        assert (await here.client.post(here.url + "/v1/responses/r1/cancel", json={})).status_code == 200


async def test_of_a_stream_all_but_what_the_gateway_adds_is_as_it_was() -> None:
    asked = BODY.replace(b'"n": 1, "n": 1', b'"stream": true')
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        await here.client.post(here.url + CHAT, content=asked)
        added = b',"stream_options":{"include_usage":true}'
        assert (added in fake.raw[0], fake.raw[0].replace(added, b"")) == (True, asked)


async def test_what_administers_an_engine_is_unknown_here_in_openais_form() -> None:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        for path in ADMINISTRATIVE:
            for method in ("GET", "POST"):
                answer = await here.client.request(method, here.url + path, content=b"{}")
                error = answer.json()["error"]
                assert (path, answer.status_code, error["code"]) == (path, 404, "unknown_url")
                assert set(error) == {"message", "type", "param", "code"}
        assert not fake.requests


async def test_a_compressed_answer_passes_untouched() -> None:
    packed = gzip.compress(b'{"id": "1", "choices": []}')
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:

        async def script(reader: object, writer: object) -> bool:
            writer.write(head % len(packed) + packed)  # type: ignore[attr-defined]
            return True

        fake.script = script
        request = here.client.build_request("POST", here.url + CHAT, json={"model": "fake", "messages": []})
        answer = await here.client.send(request, stream=True)
        assert b"".join([part async for part in answer.aiter_raw()]) == packed
        assert (answer.headers["content-encoding"], answer.headers["content-length"]) == ("gzip", str(len(packed)))
        assert "accept-encoding: gzip" in fake.heads[0]


async def test_a_refusal_that_is_passed_on_says_how_it_is_compressed() -> None:
    packed = gzip.compress(b'{"error": {"message": "full"}}')
    head = b"HTTP/1.1 503 X\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:

        async def script(reader: object, writer: object) -> bool:
            writer.write(head % len(packed) + packed)  # type: ignore[attr-defined]
            return True

        fake.script = script
        answer = await here.client.post(here.url + CHAT, json={"model": "fake", "messages": []})
        assert (answer.status_code, answer.json()) == (503, {"error": {"message": "full"}})


async def test_an_anthropic_client_is_told_that_its_stream_broke_off() -> None:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        body = {"model": "fake", "messages": [], "stream": True, "behaviour": "die in a stream"}
        answer = await here.client.post(here.url + "/v1/messages", json=body)
        event = answer.text.split("\n\n")[-2]
        assert event.startswith("event: error\ndata: ")  # clients pass over what has another name, or none
        said = json.loads(event.partition("data: ")[2])
        assert (said["type"], said["error"]["type"]) == ("error", "api_error")


async def test_a_request_without_an_id_gets_one_that_everybody_is_told() -> None:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        answer = await here.client.post(here.url + CHAT, json={"model": "fake", "messages": []})
        id = answer.headers["x-request-id"]
        assert len(id) == 32
        assert f"x-request-id: {id}\r\n" in fake.heads[0]


@pytest.mark.parametrize("given", ["x" * 129, "", "a\tb", "\xe9"])
async def test_an_id_that_is_none_is_not_passed_on(given: str) -> None:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        for id in (given, "x" * 128):
            asked, headers = {"model": "fake", "messages": []}, {b"x-request-id": id.encode("latin-1")}
            answer = await here.client.post(here.url + CHAT, json=asked, headers=headers)
            made = answer.headers["x-request-id"]
            assert (made == id, len(made) == 32) == (id != given, id == given)
            assert f"x-request-id: {made}\r\n" in fake.heads[-1]


async def test_neither_keys_nor_text_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "gateway")
    keys = [{"name": "a", "sha256": hashlib.sha256(b"the-good-key").hexdigest(), "requests_per_minute": 2}]
    settings = {"admission": {"keys": keys}, "upstream_api_key": "the-engines-key", "ejection": {"failures": 1}}
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], **settings}) as here:
        statuses = []
        for key, behaviour in (
            ("bad-key", "answer"),
            ("the-good-key", "die in a body"),
            *[("the-good-key", "answer")] * 2,
        ):
            body = {"model": "fake", "messages": [{"role": "user", "content": "the-text"}], "behaviour": behaviour}
            answer = await here.client.post(here.url + CHAT, json=body, headers={"authorization": f"Bearer {key}"})
            statuses.append(answer.status_code)
        assert statuses == [401, 502, 200, 429]
        assert "authorization: bearer the-engines-key" in fake.heads[0]
    assert len(caplog.records) > 3
    logged = caplog.text + "".join(str(vars(record)) for record in caplog.records)
    assert [secret for secret in ("bad-key", "the-good-key", "the-engines-key", "the-text") if secret in logged] == []


async def test_each_request_has_one_line_in_the_log_however_it_ended(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "kvgate.request")
    keys = [{"name": "a", "sha256": hashlib.sha256(b"key").hexdigest()}]
    admission = {"keys": keys, "max_in_flight": 1, "queue": 0}
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], "admission": admission}) as here:

        async def ask(id: str, behaviour: str = "answer", path: str = CHAT, key: str = "key") -> None:
            body = {"model": "fake", "messages": [], "behaviour": behaviour}
            sent = {"authorization": f"Bearer {key}", "x-request-id": id}
            await here.client.post(here.url + path, json=body, headers=sent)

        await ask("answered")
        listed = {"authorization": "Bearer key", "x-request-id": "listed"}
        await here.client.get(here.url + "/v1/models", headers=listed)
        await ask("nobody's", key="other")
        await ask("nowhere", path="/v1/nowhere?key=secret")
        await ask("broken", "die before headers")
        waits = asyncio.create_task(ask("left", "never answer"))
        await until(lambda: fake.open, "it waits for its answer")
        await ask("too many")
        waits.cancel()
        await until(lambda: not fake.open, "the replica was hung up on")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert [[line[name] for name in ("id", "tenant", "path", "outcome", "status", "reason")] for line in lines] == [
        ["answered", "a", CHAT, "complete", 200, lines[0]["reason"]],
        ["listed", "a", "/v1/models", "complete", 200, "answered by the gateway"],
        ["nobody's", "", CHAT, "refused", 401, "Unauthorized"],
        ["nowhere", "a", "/v1/nowhere", "refused", 404, "UnknownPath"],
        ["broken", "a", CHAT, "refused", 502, "UpstreamBroken"],
        ["too many", "a", CHAT, "refused", 429, "queue_full"],
        ["left", "a", CHAT, "client_gone", 0, "ClientGone"],
    ]


async def test_what_is_under_way_when_the_gateway_waits_no_longer_is_told_so_and_has_its_line(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "kvgate.request")
    settings = {"limits": {"drain": 0}}
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], **settings}) as here:

        def asking(behaviour: str) -> dict[str, Any]:
            body = {"model": "fake", "messages": [], "behaviour": behaviour}
            return {"method": "POST", "url": here.url + CHAT, "json": body, "headers": {"x-request-id": behaviour}}

        waiting = asyncio.create_task(here.client.request(**asking("never answer")))
        async with here.client.stream(**asking("stream for ever")) as streamed:
            events = streamed.aiter_text()
            await anext(events)
            await until(lambda: fake.open == 2, "both are under way")
            here.server.should_exit = True
            *_, last = "".join([text async for text in events]).removesuffix("\n\n").split("data: ")
        refused = await waiting
        assert (streamed.status_code, json.loads(last)["error"]["code"]) == (200, 503)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "gateway_stopped")
        assert "retry-after" in refused.headers
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert {(line["id"], line["outcome"], line["status"]) for line in lines} == {
        ("stream for ever", "gateway_stopped", 200),
        ("never answer", "refused", 503),
    }


async def test_what_a_client_is_told_of_a_failure_names_no_address() -> None:
    async with (
        fake_replica() as fake,
        gateway_here({"replicas": [{"url": fake.url}], "probing": {"interval": 60}}) as here,
    ):
        fake.stop_listening()
        answer = await here.client.post(here.url + CHAT, json={"model": "fake", "messages": []})
        assert answer.status_code == 502
        assert fake.url[7:] not in answer.text
