"""Keys, limits, salts and credentials as clients and replicas see them."""

import asyncio
import gzip
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fake_replica import FakeReplica, fake_replica
from gateway_here import Here, gateway_here, until

from gateway.config import Config

CERTIFICATES = Path(__file__).parents[1] / "support/certificates"
CHAT = "/v1/chat/completions"


def key(name: str, **settings: object) -> dict[str, object]:
    """The settings of the key `key-NAME`."""
    return {"name": name, "sha256": hashlib.sha256(f"key-{name}".encode()).hexdigest(), **settings}


@dataclass
class World:
    fake: FakeReplica
    gateway: Here

    @property
    def client(self) -> httpx.AsyncClient:
        return self.gateway.client

    async def chat(
        self, who: str | None = None, headers: Mapping[str, str] | None = None, **fields: object
    ) -> httpx.Response:
        sent = {"authorization": f"Bearer key-{who}"} if who else {}
        body = {"model": "fake", "messages": [], **fields}
        return await self.client.post(self.gateway.url + CHAT, json=body, headers={**sent, **(headers or {})})

    async def refusals(self) -> set[str]:
        rows = await self.gateway.metric("kvgate_admission_refused_total")
        return {row.split('reason="')[1].split('"')[0] for row in rows}


@asynccontextmanager
async def world(**settings: object) -> AsyncIterator[World]:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], **settings}) as here:
        yield World(fake, here)


async def test_only_who_has_a_key_is_let_in_and_only_to_its_models(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    keys = [key("a"), key("b", models=["other"])]
    async with world(admission={"keys": keys}) as at:
        for who in (None, "nobody"):
            answer = await at.chat(who)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
            assert answer.headers["www-authenticate"] == "Bearer"
        answer = await at.chat("b")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "model_not_allowed")
        form = await at.client.post(
            at.gateway.url + "/v1/audio/transcriptions",
            data={"model": "fake"},
            files={"file": b"RIFF"},
            headers={"x-api-key": "key-b"},
        )
        assert form.status_code == 403
        assert not at.fake.requests
        assert (await at.chat("a")).status_code == 200
        listed = await at.client.get(at.gateway.url + "/v1/models", headers={"x-api-key": "key-b"})
        assert listed.json()["data"] == []
        assert (await at.client.get(at.gateway.url + "/v1/models")).status_code == 401
        assert await at.refusals() == {"key", "model"}
    assert "key-a" not in caplog.text + capfd.readouterr().err
    assert "authorization" not in at.fake.heads[0], "the client's key is for the gateway alone"


async def test_keys_that_are_read_later_count_as_those_of_the_start_do() -> None:
    keys = {"keys": [key("a")]}
    async with world(admission={"max_in_flight": 9}) as at, fake_replica() as other:
        replicas = [{"url": at.fake.url, "api_key": "the replica's"}, {"url": other.url}]
        listen = {"port": 0}
        at.gateway.gateway.reload(Config.model_validate({"listen": listen, "admission": keys, "replicas": replicas}))
        await until(lambda: len(list(at.gateway.gateway.health.states(0.0))) == 2, "the other has joined")
        assert (await at.chat()).status_code == 401
        for _ in range(8):
            assert (await at.chat("a")).status_code == 200
            assert (await at.chat(headers={"x-api-key": "key-a"})).status_code == 200
        assert at.fake.heads
        assert other.heads
        assert all("authorization: bearer the replica's\r\n" in head for head in at.fake.heads)
        assert not [head for head in at.fake.heads + other.heads if "key-a" in head]


async def test_a_rate_is_a_429_that_says_when() -> None:
    keys = [key("a", requests_per_minute=2), key("b", tokens_per_minute=60)]
    async with world(admission={"keys": keys}) as at:
        assert [(await at.chat("a")).status_code for _ in range(3)] == [200, 200, 429]
        answer = await at.chat("a")
        error = answer.json()["error"]
        assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
        assert 1 <= int(answer.headers["retry-after"]) <= 30
        for _ in range(3):
            answer = await at.chat("b", padding="x" * 100)
            assert answer.status_code == 200, "its body looks like 40 tokens, the engine counted 2"
        assert await at.refusals() == {"requests"}


async def test_a_stream_that_its_client_cuts_counts_as_far_as_it_came() -> None:
    async def streams(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        event = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + event * 10_000)
        await reader.read(1)
        return False

    keys = [key("a", tokens_per_minute=1000), key("b", tokens_per_minute=1000)]
    async with world(admission={"keys": keys}) as at:
        at.fake.script = streams
        body, headers = {"model": "fake", "messages": [], "stream": True}, {"authorization": "Bearer key-a"}
        async with at.client.stream("POST", at.gateway.url + CHAT, json=body, headers=headers) as answer:
            size = 0
            async for part in answer.aiter_raw():
                if (size := size + len(part)) > 512_000:
                    break
        await until(lambda: not at.fake.open, "the replica was hung up on")
        at.fake.script = None
        assert (await at.chat("a")).json()["error"]["type"] == "tokens"
        assert (await at.chat("b")).status_code == 200


@pytest.mark.parametrize("encoded", [gzip.compress, lambda body: body.decode().encode("utf-16")])
async def test_a_stream_whose_tokens_could_not_be_counted_is_refused_where_they_are_limited(
    encoded: Callable[[bytes], bytes],
) -> None:
    keys = [key("a", tokens_per_minute=60), key("b", requests_per_minute=60)]
    async with world(admission={"keys": keys}) as at:
        for who, asked, status in (("a", b"false", 400), ("a", b"true", 200), ("b", b"false", 200)):
            body = encoded(
                b'{"model":"fake","messages":[],"stream":true,"stream_options":{"include_usage":%b}}' % asked
            )
            headers = {"authorization": f"Bearer key-{who}"}
            if body.startswith(b"\x1f\x8b"):
                headers["content-encoding"] = "gzip"
            answer = await at.client.post(at.gateway.url + CHAT, content=body, headers=headers)
            assert (who, asked, answer.status_code) == (who, asked, status)


async def test_too_many_at_once_wait_and_too_many_waiting_are_refused() -> None:
    admission = {"max_in_flight": 1, "queue": 1, "queue_timeout": 1.0}
    async with world(admission=admission) as at:
        running = asyncio.create_task(at.chat(behaviour="never answer"))
        await until(lambda: len(at.fake.requests) == 1, "the first is being answered")
        waiting, refused = await asyncio.gather(at.chat(), at.chat())
        assert {waiting.status_code, refused.status_code} == {429}
        running.cancel()
        assert (await at.chat()).status_code == 200
        assert await at.refusals() == {"queue_full", "queue_timeout"}


async def test_each_tenants_blocks_have_a_salt_of_their_own() -> None:
    keys = [key("a", cache_salt="salt-a"), key("b")]
    async with world(admission={"keys": keys}) as at:
        for who, own in (("a", {}), ("b", {}), ("b", {"cache_salt": "mine"}), ("a", {"cache_salt": "mine"})):
            assert (await at.chat(who, **own)).status_code == 200  # type: ignore[arg-type]
        salts = [request.get("cache_salt") for request in at.fake.requests]
        assert salts[:3] == ["salt-a", None, "mine"]
        assert salts[3] not in ("salt-a", "mine", None)
        assert (await at.chat("a", cache_salt=7)).status_code == 400
        packed = gzip.compress(b'{"model": "fake", "messages": []}')
        headers = {"content-encoding": "gzip", "authorization": "Bearer key-a"}
        refused = await at.client.post(at.gateway.url + CHAT, content=packed, headers=headers)
        assert refused.status_code == 400, "a salt can't be put into what is compressed"


async def test_a_clients_salt_is_refused_where_that_is_set() -> None:
    async with world(admission={"client_salt": False}) as at:
        answer = await at.chat(cache_salt="mine")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "cache_salt")
        assert (await at.chat()).status_code == 200


async def test_a_replica_gets_its_own_key_and_the_way_the_request_took() -> None:
    async with world(upstream_api_key="engine-secret") as at:
        headers = {
            "authorization": "Bearer mine", "x-forwarded-for": "10.9.8.7", "traceparent": "00-1-2-01",
            "connection": "close, x-hop", "x-hop": "1", "x-request-id": "r1", "host": "api.example",
        }  # fmt: skip
        answer = await at.chat(headers=headers)
        assert answer.headers["via"] == "1.1 kvgate"
        head = dict(line.split(": ", 1) for line in at.fake.heads[0].split("\r\n")[1:] if line)
        assert head["authorization"] == "bearer engine-secret"  # the fake lowers heads
        assert head["x-forwarded-for"] == "10.9.8.7, 127.0.0.1"
        assert (head["x-forwarded-proto"], head["x-forwarded-host"]) == ("http", "api.example")
        assert (head["via"], head["traceparent"], head["x-request-id"]) == ("1.1 kvgate", "00-1-2-01", "r1")
        assert head["host"] == at.fake.url.removeprefix("http://")
        assert not {"x-hop", "connection"} & head.keys()


async def test_compressed_bodies_pass_untouched() -> None:
    async with world(limits={"body_bytes": 10_000}) as at:
        packed = gzip.compress(b'{"model": "fake", "stream": true, "messages": []}')
        url, headers = at.gateway.url + CHAT, {"content-encoding": "gzip"}
        assert (await at.client.post(url, content=packed, headers=headers)).status_code == 200
        assert at.fake.raw == [packed]
        bomb = gzip.compress(b" " * 100_000)
        assert (await at.client.post(url, content=bomb, headers=headers)).status_code == 413
        ids = gzip.compress(json.dumps({"model": "fake", "kv_transfer_params": {"prompt_token_ids": [1]}}).encode())
        for body, status in ((ids, 400), (packed[:-9], 400), (packed + b"x", 400), (b"{}", 400)):
            assert (await at.client.post(url, content=body, headers=headers)).status_code == status
        other = await at.client.post(url, content=b"{}", headers={"content-encoding": "br"})
        assert other.status_code == 415
        assert len(at.fake.raw) == 1


async def test_a_model_has_other_names_where_they_are_set() -> None:
    async with world(aliases={"gpt-4o": "fake"}) as at:
        url = at.gateway.url + CHAT
        sent = b'{"model": "gpt-4o",  "messages": [], "x": 1.0}'
        assert (await at.client.post(url, content=sent)).status_code == 200
        assert at.fake.raw == [b'{"model": "fake",  "messages": [], "x": 1.0}']
        models = (await at.client.get(at.gateway.url + "/v1/models")).json()["data"]
        assert [model["id"] for model in models] == ["fake", "gpt-4o"]


async def test_a_replica_may_want_to_see_a_certificate() -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=CERTIFICATES / "ca.pem")
    tls.load_cert_chain(CERTIFICATES / "server.pem")
    tls.verify_mode = ssl.CERT_REQUIRED
    shown = {"ca": str(CERTIFICATES / "ca.pem"), "certificate": str(CERTIFICATES / "client.pem")}
    async with (
        fake_replica(tls=tls) as fake,
        gateway_here({"replicas": [{"url": fake.url}], "upstream_tls": shown}) as here,
    ):
        assert (await World(fake, here).chat()).status_code == 200
    with pytest.raises(ValueError, match="upstream_tls"):
        Config.model_validate({"upstream_tls": {"certificate": "/none.pem"}})
