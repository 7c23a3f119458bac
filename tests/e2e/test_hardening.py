"""What clients may not do to the gateway."""

import asyncio
import gzip
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
from fake_replica import FakeReplica, fake_replica
from gateway_here import Here, gateway_here, until
from processes import eventually

CHAT = b"/v1/chat/completions"
BODY = b'{"model": "fake", "messages": []}'


@dataclass
class World:
    fake: FakeReplica
    here: Here

    async def say(self, *parts: bytes) -> bytes:
        """Everything that the gateway answers to these bytes until it closes the connection."""
        reader, writer = await self.connect()
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            return await asyncio.wait_for(reader.read(), 20.0)
        finally:
            writer.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self.here.url.removeprefix("http://").split(":")
        return await asyncio.open_connection(host, int(port))

    async def ended(self) -> set[str]:
        rows = await self.here.metric("kvgate_connections_refused_total")
        return {row.split('"')[1] for row in rows}


@asynccontextmanager
async def world(**settings: object) -> AsyncIterator[World]:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], **settings}) as here:
        yield World(fake, here)


def request(*headers: bytes, body: bytes = b"", line: bytes = b"POST %b HTTP/1.1" % CHAT) -> bytes:
    return b"\r\n".join([line, b"host: x", *headers, b"", body])


LENGTH = b"content-length: %d" % len(BODY)
SMUGGLED = b"0\r\n\r\nGET /admin HTTP/1.1\r\nhost: x\r\n\r\n"


AMBIGUOUS = {
    "length and chunks": request(LENGTH, b"transfer-encoding: chunked", body=SMUGGLED),
    "chunks and length": request(b"transfer-encoding: chunked", LENGTH, body=SMUGGLED),
    "two lengths": request(LENGTH, b"content-length: 5", body=BODY),
    "a list of lengths": request(b"content-length: 33, 33", body=BODY),
    "a length with a sign": request(b"content-length: +33", body=BODY),
    "a length in hexadecimal": request(b"content-length: 0x21", body=BODY),
    "a length below nothing": request(b"content-length: -1", body=BODY),
    "a length without end": request(b"content-length: 99999999999999999999", body=BODY),
    "chunks not last": request(b"transfer-encoding: chunked, identity", body=SMUGGLED),
    "an unknown encoding": request(b"transfer-encoding: xchunked", body=SMUGGLED),
    "a space before the colon": request(b"transfer-encoding : chunked", body=SMUGGLED),
    "a folded header": request(LENGTH, b"x: a", b" folded", body=BODY),
    "a bare line feed": request(b"x: a\ny: b", LENGTH, body=BODY),
    "a null byte": request(b"x: a\x00b", LENGTH, body=BODY),
    "a bare carriage return": request(b"x: a\ry: b", LENGTH, body=BODY),
    "a chunk size of letters": request(b"transfer-encoding: chunked", body=b"zz\r\nxx\r\n0\r\n\r\n"),
    "a chunk size below nothing": request(b"transfer-encoding: chunked", body=b"-1\r\nx\r\n0\r\n\r\n"),
    "a chunk without end": request(b"transfer-encoding: chunked", body=b"fffffffffffffffff\r\nx\r\n0\r\n\r\n"),
    "a chunk longer than it says": request(b"transfer-encoding: chunked", body=b"1\r\nxy\r\n0\r\n\r\n"),
    "chunks with bare line feeds": request(b"transfer-encoding: chunked", body=b"1\nx\n0\n\n"),
    "two versions": b"POST %b HTTP/1.1 HTTP/1.1\r\nhost: x\r\n\r\n" % CHAT,
    "a version that is none": b"POST %b HTTP/9.9\r\nhost: x\r\n\r\n" % CHAT,
    "TLS": b"\x16\x03\x01\x02\x00\x01",
}


async def test_what_two_parsers_could_read_differently_is_refused() -> None:
    async with world() as at:
        answers = {name: await at.say(sent) for name, sent in AMBIGUOUS.items()}
        wrong = {name for name, answer in answers.items() if not answer.startswith(b"HTTP/1.1 400 ")}
        assert not wrong
        assert {answer.count(b"HTTP/1.1") for answer in answers.values()} == {1}
        assert not at.fake.requests
        assert await at.here.metric("kvgate_connections_refused_total") == {'{reason="malformed"}': len(AMBIGUOUS)}


async def test_who_is_too_slow_is_let_go_and_counted() -> None:
    listen = {"head_timeout": 0.25, "body_timeout": 0.25}
    async with world(listen=listen) as at:
        assert await at.say() == b""
        assert (await at.say(b"POST / HTT")).startswith(b"HTTP/1.1 408 ")
        assert (await at.say(request(LENGTH, body=BODY[:5]))).startswith(b"HTTP/1.1 408 ")
        assert await at.ended() == {"head_time", "body_time"}
        assert await at.here.metric("kvgate_requests_total") == {
            '{model="",outcome="client_gone",policy="",replica="",status=""}': 1.0
        }


@pytest.mark.parametrize("streams", [True, False])
async def test_who_takes_nothing_of_an_answer_is_let_go_and_counted(streams: bool) -> None:
    kind = b"text/event-stream" if streams else b"application/octet-stream"

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind)
        while True:
            writer.write(b"2000\r\n%b\r\n" % (b"data: " + b"x" * 8184 + b"\n\n"))
            await writer.drain()  # until the gateway hangs up

    async with world(listen={"answer_timeout": 0.5}, limits={"buffer_bytes": 16_384}) as at:
        at.fake.script = script
        _, writer = await at.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(request(LENGTH, body=BODY))

        async def let_go() -> bool:
            return await at.ended() == {"answer_time"} and at.fake.open == await at.here.in_flight() == 0

        await eventually(let_go, "nothing is kept for it")
        rows = await at.here.metric("kvgate_requests_total")
        assert ['outcome="client_gone"' in row for row in rows] == [True]
        writer.close()


async def test_a_body_that_keeps_coming_has_its_time() -> None:
    async with world(listen={"body_timeout": 0.8}) as at:
        reader, writer = await at.connect()
        body = BODY[:-1] + b' , "pad": "' + b"x" * 100_000 + b'"}'
        writer.write(request(b"content-length: %d" % len(body), b"connection: close"))
        for start in range(0, len(body), 20_000):
            await asyncio.sleep(0.25)
            writer.write(body[start : start + 20_000])
        assert (await asyncio.wait_for(reader.read(), 20.0)).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_one_address_has_so_many_connections() -> None:
    async with world(listen={"connections_per_address": 3}) as at:
        kept = [await at.connect() for _ in range(2)]
        await at.here.client.get(at.here.url + "/healthz")
        assert (await at.say()).startswith(b"HTTP/1.1 429 ")
        kept[0][1].close()

        async def another() -> bool:
            head = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            return (await at.say(head)).startswith(b"HTTP/1.1 200 ")

        end = asyncio.get_running_loop().time() + 20.0
        while not await another():
            assert asyncio.get_running_loop().time() < end
        kept[1][1].close()
        assert await at.ended() == {"per_address"}


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
async def test_what_is_nested_without_end_is_a_400(opening: bytes) -> None:
    async with world() as at:
        body = b'{"model": "fake", "messages": [], "x": ' + opening * 200_000
        answer = await at.here.client.post(at.here.url + CHAT.decode(), content=body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_a_body_in_chunks_is_counted_as_it_comes() -> None:
    async with world(limits={"body_bytes": 1000}) as at:
        chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
        answer = await at.say(
            request(b"transfer-encoding: chunked", b"connection: close", body=chunk * 11), b"0\r\n\r\n"
        )
        assert answer.startswith(b"HTTP/1.1 413 ")
        stated = await at.say(request(b"content-length: 1001", b"connection: close"), b"x" * 1001)
        assert stated.startswith(b"HTTP/1.1 413 ")
        assert not at.fake.requests


async def test_what_operators_call_is_elsewhere_when_they_have_a_port() -> None:
    async with world(listen={"admin_port": 0}) as at:
        for path in ("/metrics", "/index", "/docs", "/openapi.json", "/anything", "/explain"):
            answer = await at.here.client.get(at.here.url + path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_url")
        for path in ("/healthz", "/readyz"):
            assert (await at.here.client.get(at.here.url + path)).status_code == 200


async def test_one_that_is_told_to_stop_says_so_lets_streams_end_and_takes_no_more() -> None:
    async with world(listen={"drain_delay": 0.3}) as at:
        body = json.dumps({"model": "fake", "messages": [], "stream": True, "behaviour": "stream for ever"})
        async with at.here.client.stream("POST", at.here.url + CHAT.decode(), content=body) as running:
            chunks = running.aiter_raw()
            await anext(chunks)
            at.here.server.should_exit = True
            await until(lambda: at.here.gateway.stopping, "it is not ready any more")
            ready = await at.here.client.get(at.here.url + "/readyz")
            assert (ready.status_code, ready.json()["missing"]) == (503, ["the gateway stops"])
            await until(lambda: not at.here.server.servers[0].is_serving(), "it takes no connections")
            for _ in range(5):
                assert b"data:" in await anext(chunks)


async def test_an_operator_takes_a_replica_out_and_back_where_clients_cant() -> None:
    async with (
        fake_replica() as one,
        fake_replica() as other,
        gateway_here(
            {"replicas": [{"url": one.url}, {"url": other.url}], "listen": {"admin_port": 0}}, joined=2
        ) as here,
        httpx.AsyncClient(transport=httpx.ASGITransport(here.gateway.admin), base_url="http://admin") as operator,
    ):
        id = one.url.removeprefix("http://")
        assert (await here.client.post(f"{here.url}/replicas/{id}/drain")).status_code == 404
        assert (await operator.post(f"/replicas/{id}/drain")).json()["state"] == "draining"
        for _ in range(4):
            assert (await here.client.post(here.url + CHAT.decode(), content=BODY)).status_code == 200
        assert (len(one.requests), len(other.requests)) == (0, 4)
        assert (await operator.post(f"/replicas/{id}/resume")).json()["state"] == "ready"
        for _ in range(4):
            await here.client.post(here.url + CHAT.decode(), content=BODY)
        assert len(one.requests) == 2
        assert (await operator.post("/replicas/nobody:1/drain")).status_code == 404
        states = {row["replica"]: row["state"] for row in (await operator.get("/replicas")).json()}
        assert set(states.values()) == {"ready"}


async def test_where_operators_have_no_port_nothing_can_be_changed() -> None:
    async with world() as at:
        id = at.fake.url.removeprefix("http://")
        assert (await at.here.client.get(at.here.url + "/replicas")).json()[0]["state"] == "ready"
        assert (await at.here.client.post(f"{at.here.url}/replicas/{id}/drain")).status_code == 404


@pytest.mark.parametrize("upgrade", [(), (b"connection: upgrade", b"upgrade: websocket")])
async def test_the_body_of_a_get_is_not_the_replicas_next_request(upgrade: tuple[bytes, ...]) -> None:
    hidden = request(b"content-length: 0", line=b"POST /sleep HTTP/1.1")
    length = b"content-length: %d" % len(hidden)
    async with world() as made:
        made.fake.gets["/v1/responses/r1"] = {"id": "r1"}
        get = request(length, *upgrade, b"connection: close", body=hidden, line=b"GET /v1/responses/r1 HTTP/1.1")
        assert (await made.say(get)).endswith(b'{"id": "r1"}')
        chat = request(LENGTH, b"connection: close", body=BODY)
        assert (await made.say(chat)).startswith(b"HTTP/1.1 200")  # on the same connection to the replica
        assert [head.partition("\r\n")[0] for head in made.fake.heads] == ["post /v1/chat/completions http/1.1"]


@pytest.mark.parametrize(
    "path",
    [
        b"..%2f..%2fmetrics", b"../../metrics", b"%2e%2e/%2e%2e/sleep%3f", b"..", b".", b"", b"a/b", b"..%5c..%5csleep",
        b"r1%3f", b"r1%23", b"r1%00", b"r1%2525",
    ],
)  # fmt: skip
async def test_no_other_path_of_an_engine_is_reached_by_the_id_of_an_answer(path: bytes) -> None:
    async with world() as made:
        for line in (b"GET /v1/responses/%b HTTP/1.1", b"POST /v1/responses/%b/cancel HTTP/1.1"):
            asked = request(b"content-length: 0", b"connection: close", line=line % path)
            assert (await made.say(asked)).startswith(b"HTTP/1.1 404")
        assert not made.fake.heads
        assert not [asked for asked in made.fake.asked if "responses" in asked]


async def test_a_compressed_body_is_decoded_piece_by_piece_and_as_a_whole() -> None:
    body = b'{"model":"fake","messages":[],"x":"%b"}' % random.Random(1).randbytes(200_000).hex().encode()
    packed, bomb = gzip.compress(body), gzip.compress(b" " * 2_000_001)
    members = gzip.compress(body[:10]) + gzip.compress(b"") + gzip.compress(body[10:])
    async with world(limits={"body_bytes": 2_000_000}) as at:
        for sent, status in (
            (packed, 200), (packed[:-1], 400), (packed + b"x", 400), (packed + packed, 400), (body, 400), (bomb, 413),
            (members, 200), (members[:-1], 400), (gzip.compress(b" " * 1_000_001) * 2, 413),
            (gzip.compress(b"") * 2000 + packed, 400),
        ):  # fmt: skip
            headers = {"content-encoding": "gzip"}
            answer = await at.here.client.post(at.here.url + CHAT.decode(), content=sent, headers=headers)
            assert (len(sent), answer.status_code) == (len(sent), status)
        assert at.fake.raw == [packed, members]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32-be"])
async def test_a_body_in_another_encoding_goes_on_as_it_came_or_not_at_all(encoding: str) -> None:
    async with world(aliases={"other": "fake"}) as made:
        for extra in ('"stream":true', '"x":"\\ud800"'):
            body = f'{{"model":"fake","messages":[],{extra}}}'.encode(encoding)
            answer = await made.here.client.post(made.here.url + CHAT.decode(), content=body)
            assert (answer.status_code, made.fake.raw[-1]) == (200, body)
        for fields in ('"model":"other"', '"model":"fake","kv_transfer_params":{"prompt_token_ids":[1]}'):
            body = f'{{{fields},"messages":[]}}'.encode(encoding)
            assert (await made.here.client.post(made.here.url + CHAT.decode(), content=body)).status_code == 400
        assert len(made.fake.raw) == 2
