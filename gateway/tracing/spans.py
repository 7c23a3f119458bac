"""OpenTelemetry: one span for each request, which its replica's go on from."""

import os
import socket
import time
from collections.abc import Mapping
from typing import cast

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.config import TracingConfig
from gateway.relay.client import Client
from gateway.relay.record import Ended
from gateway.relay.upstream import RawHeaders
from gateway.stored import PATH as STORED

_PROPAGATOR = TraceContextTextMapPropagator()
_CONTEXT = (b"traceparent", b"tracestate")
_NS = 1e9


def provider(config: TracingConfig) -> TracerProvider:
    """Sends spans to the collector from a thread of its own; those that it can't send are dropped."""
    resource = Resource(
        {"service.name": config.service, "service.instance.id": f"{socket.gethostname()}:{os.getpid()}"}
    )
    made = TracerProvider(ParentBased(TraceIdRatioBased(config.share)), resource, shutdown_on_exit=False)
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(config.endpoint, headers=headers)))
    return made


class RequestSpan:
    """One request's span, from its arrival to its end. It holds no text, tokens or keys."""

    def __init__(self, span: Span, begun: int, client: Client) -> None:
        """begun: nanoseconds since the epoch."""
        self.span = span
        self.begun = begun
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, set_span_in_context(span))
        # One that came along and is not continued must not go on beside the new parent.
        self.headers: RawHeaders = [
            (name, carrier.get(name.decode(), "").encode("latin-1"))
            for name in _CONTEXT if name.decode() in carrier or name in client.fields
        ]  # fmt: skip

    def end(self, status: int | None) -> None:
        if status is not None:
            self.span.set_attribute("http.response.status_code", status)
            if status >= 500:
                self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()


class Tracing:
    """A `Tracer`, and a listener of the books. provider: where spans go."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self._tracer = provider.get_tracer("kvgate")

    def begin(self, client: Client, id: str) -> RequestSpan:
        """A request has come; it goes on with the trace that its headers name."""
        carrier = {name.decode(): client.fields[name].decode("latin-1") for name in _CONTEXT if name in client.fields}
        route = STORED + "/{id}" if client.path.startswith(STORED + "/") else client.path
        begun = time.time_ns()
        span = self._tracer.start_span(
            f"{client.method} {route}", _PROPAGATOR.extract(carrier), SpanKind.SERVER,
            {"http.request.method": client.method, "http.route": route, "kvgate.request_id": id}, start_time=begun,
        )  # fmt: skip
        return RequestSpan(span, begun, client)

    def ended(self, ended: Ended) -> None:
        """A replica has answered: what was decided, what was predicted and what came of it."""
        record, trace = ended.record, cast(RequestSpan, ended.inbound.trace)
        span = trace.span
        if span.is_recording():
            span.set_attributes(_attributes(ended))
            if record.ttft is not None:
                span.add_event("first byte", timestamp=trace.begun + int(record.ttft * _NS))
            if record.how not in ("complete", "client_gone"):
                span.set_status(Status(StatusCode.ERROR, record.how))
        span.end(trace.begun + int(record.duration * _NS))

    def close(self) -> None:
        """Send what has not been sent. Waits for the collector; not for the event loop's thread."""
        self.provider.shutdown()


def _attributes(ended: Ended) -> Mapping[str, str | int | float]:
    record = ended.record
    decision, usage = record.decision, record.usage
    known: dict[str, str | int | float | None] = {
        "http.response.status_code": record.status,
        "gen_ai.request.model": record.model,
        "gen_ai.usage.input_tokens": usage.prompt_tokens if usage else None,
        "gen_ai.usage.output_tokens": usage.completion_tokens if usage else None,
        "kvgate.tenant": record.tenant or None,
        "kvgate.outcome": record.how,
        "kvgate.policy": decision.policy,
        "kvgate.reason": decision.reason,
        "kvgate.replica": decision.engine.replica,
        "kvgate.engine": decision.engine.rank,
        "kvgate.candidates": len(decision.candidates),
        "kvgate.prompt_tokens": decision.prompt_tokens,
        "kvgate.cached_tokens.predicted": decision.cached_tokens,
        "kvgate.cached_tokens.reported": usage.cached_tokens if usage else None,
        "kvgate.l2_tokens": decision.l2_tokens,
        "kvgate.ttft.predicted": decision.prediction.ttft,
        "kvgate.ttft": record.ttft,
        "kvgate.itl": record.itl,
        "kvgate.overhead": record.overhead,
        "kvgate.queue": ended.inbound.waited,
    }
    return {name: value for name, value in known.items() if value is not None}
