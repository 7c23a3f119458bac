"""Spans of requests that go through a whole gateway."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fake_replica import FakeReplica, fake_replica
from gateway_here import Here, gateway_here, until
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

CHAT = "/v1/chat/completions"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "tracestate": "vendor=1"}
SECRET = "what the client says"
BODY: Mapping[str, object] = {"model": "fake", "messages": [{"role": "user", "content": SECRET}]}


@dataclass
class World:
    fake: FakeReplica
    here: Here
    exporter: InMemorySpanExporter
    came: list[bytes]

    async def post(self, path: str = CHAT, **headers: str) -> int:
        return (await self.here.client.post(self.here.url + path, json=BODY, headers=headers)).status_code

    def spans(self) -> Sequence[ReadableSpan]:
        spans = self.exporter.get_finished_spans()
        self.exporter.clear()
        return spans

    def sent(self, header: str) -> str | None:
        """As the replica got it last."""
        lines = [line.partition(": ") for line in self.fake.heads[-1].split("\r\n")]
        return next((value for name, _, value in lines if name == header), None)

    def sampled(self) -> bool:
        """What the replica is told of it (W3C Trace Context: the lowest bit of the flags)."""
        return bool(int((self.sent("traceparent") or "")[-2:], 16) & 1)


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Takes spans in OTLP; gives where, and the requests that came."""
    came: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        came.append(head + await reader.readexactly(int(length.split()[1])))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/traces", came


@asynccontextmanager
async def world(share: float = 1.0) -> AsyncIterator[World]:
    exporter = InMemorySpanExporter()
    async with collector() as (endpoint, came), fake_replica() as fake:
        tracing = {"endpoint": endpoint, "share": share, "headers": {"x-key": "k"}, "service": "the-gateway"}
        async with gateway_here({"replicas": [{"url": fake.url}], "tracing": tracing}) as here:
            assert here.gateway.tracing is not None
            here.gateway.tracing.provider.add_span_processor(SimpleSpanProcessor(exporter))
            yield World(fake, here, exporter, came)


async def test_spans_are_sent_to_the_collector_when_the_gateway_stops_at_the_latest() -> None:
    async with world() as at:
        await at.post()
    (request,) = at.came
    assert request.startswith(b"POST /v1/traces ")
    assert b"x-key: k" in request.lower()
    assert b"the-gateway" in request
    assert f"POST {CHAT}".encode() in request
    assert SECRET.encode() not in request


async def test_a_request_goes_on_with_its_trace_and_so_does_its_replica() -> None:
    async with world() as at:
        assert await at.post(**PARENT) == 200
        (span,) = at.spans()
        assert span.context is not None
        assert span.parent is not None
        assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, "b7ad6b7169203331")
        assert at.sent("traceparent") == f"00-{TRACE}-{span.context.span_id:016x}-01"
        assert at.sent("tracestate") == "vendor=1"
        assert (span.name, span.kind) == (f"POST {CHAT}", SpanKind.SERVER)
        told = dict(span.attributes or {})
        assert told.items() >= {
            "http.request.method": "POST", "http.response.status_code": 200, "gen_ai.request.model": "fake",
            "gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 1, "kvgate.outcome": "complete",
            "kvgate.policy": "round-robin", "kvgate.replica": at.fake.url.removeprefix("http://"),
            "kvgate.engine": 0, "kvgate.candidates": 1,
        }.items()  # fmt: skip
        assert SECRET not in span.to_json()
        assert [event.name for event in span.events] == ["first byte"]
        assert span.end_time is not None
        assert span.start_time is not None
        assert span.start_time < span.events[0].timestamp <= span.end_time


async def test_a_request_without_a_trace_or_with_none_that_can_be_read_begins_one() -> None:
    async with world() as at:
        for headers in ({}, {"traceparent": "00-nonsense", "tracestate": "vendor=1"}):
            await at.post(**headers)
            (span,) = at.spans()
            assert span.context is not None
            assert span.parent is None
            begun = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-"
            assert (at.sent("traceparent") or "").startswith(begun)
            assert at.sampled()
            assert not at.sent("tracestate")


async def test_what_no_replica_answers_has_a_span_too() -> None:
    async with world() as at:
        at.fake.status = 500
        statuses = [await at.post(), await at.post("/v1/nothing")]
        await at.here.client.get(at.here.url + "/v1/models")
        at.fake.stop_listening()
        statuses.append(await at.post())
        spans = at.spans()
        assert [dict(span.attributes or {})["http.response.status_code"] for span in spans] == [
            *statuses[:2], 200, statuses[2],
        ]  # fmt: skip
        codes = [span.status.status_code for span in spans]
        assert codes == [StatusCode.ERROR, StatusCode.UNSET, StatusCode.UNSET, StatusCode.ERROR]


async def test_a_client_that_hangs_up_ends_its_span() -> None:
    async with world() as at:
        host, port = at.here.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{" % CHAT.encode())
        await writer.drain()
        writer.transport.abort()
        await until(at.exporter.get_finished_spans, "the span has ended")
        assert "http.response.status_code" not in dict(at.spans()[0].attributes or {})


async def test_a_trace_that_comes_along_decides_whether_it_is_sampled() -> None:
    async with world(share=0.0) as at:
        await at.post()
        assert not at.spans()
        assert not at.sampled()
        await at.post(**PARENT)
        assert len(at.spans()) == 1
        await at.post(traceparent=PARENT["traceparent"][:-1] + "0")
        assert not at.spans()
        assert (at.sent("traceparent") or "").startswith(f"00-{TRACE}-")
        assert not at.sampled()


async def test_where_nothing_is_traced_a_clients_context_goes_through() -> None:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        await here.client.post(here.url + CHAT, json=BODY, headers=PARENT)
        assert f"traceparent: {PARENT['traceparent']}" in fake.heads[0]
        assert "tracestate: vendor=1" in fake.heads[0]
