"""What operators call: health, readiness, metrics, explanations, the index. FastAPI carries it."""

from typing import Protocol

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from gateway.api.explain import explanation
from gateway.api.parse import parse, session
from gateway.api.refusal import refusal
from gateway.api.token_ids import without_ids
from gateway.choosing import Chooser
from gateway.errors import BadRequest, BodyTooLarge, UnknownPath
from gateway.l2.names import tags_of
from gateway.metrics import Metrics
from gateway.relay.asgi import Receive, Scope, Send
from routing.errors import RoutingError
from routing.fleet import Fleet
from routing.index import INDEXED_TIERS, Holding


class Clock(Protocol):
    """Seconds of a monotonic clock."""

    def __call__(self) -> float: ...


class Readiness(Protocol):
    """How well requests can be served."""

    def missing(self) -> list[str]:
        """What requests still have to wait for; empty when ready."""
        ...

    def degraded(self) -> list[str]:
        """What works, but not as it should."""
        ...


def create_admin(
    fleet: Fleet, index: Holding, chooser: Chooser, metrics: Metrics, readiness: Readiness, limit: int, now: Clock
) -> FastAPI:
    """The admin surface over the parts that it shows. limit: bytes that a body may have."""
    app = FastAPI(title="kvgate", description="What the gateway is doing, and why a request would go where it goes.")

    @app.get("/healthz", summary="Whether the process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", summary="Whether requests can be served; 503 with what is missing")
    async def readyz() -> JSONResponse:
        missing = readiness.missing()
        replicas = sorted({engine.replica.id for engine in fleet})
        degraded = readiness.degraded()
        status = "waiting" if missing else "degraded" if degraded else "ready"
        answer = {"status": status, "missing": missing, "degraded": degraded, "replicas": replicas}
        return JSONResponse(answer, 503 if missing else 200)

    @app.get("/metrics", summary="Prometheus metrics")
    async def prometheus() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/index", summary="How many blocks each engine holds, as its events tell")
    async def held(replica: str | None = None) -> list[dict[str, object]]:
        return [
            {
                "replica": engine.id.replica,
                "engine": str(engine.id.rank),
                "model": engine.namespace.model,
                "block_size": engine.namespace.block_size,
                "blocks": {tier.name: index.held(engine.id, tier) for tier in INDEXED_TIERS},
                "in_flight": engine.load.ours.in_flight,
            }
            for engine in fleet
            if replica in (None, engine.id.replica)
        ]

    @app.post("/explain", summary="Where a request would go and why; nothing is sent")
    async def explain(request: Request, endpoint: str = "/v1/chat/completions") -> Response:
        try:
            raw = await _body(request, limit)
            body = parse(raw)
            raw = without_ids(raw, body.kv_transfer_params)
            policy = chooser.policy(body.model, request.headers.get("x-kvgate-policy"))
            reading = await chooser.request(endpoint, body.model, raw)
            fields = {name.lower(): value for name, value in request.headers.raw}
            route = reading.route._replace(session=session(fields, body))
            reading = msgspec.structs.replace(reading, route=route)
            found = await chooser.explain(reading, policy, now(), tags_of(body.kv_transfer_params))
            return JSONResponse(explanation(reading, policy.name, *found))
        except (BadRequest, RoutingError, ValueError) as exc:
            return _refused(exc if not isinstance(exc, ValueError) else BadRequest(str(exc), "x-kvgate-policy"))

    async def unknown(scope: Scope, receive: Receive, send: Send) -> None:
        """What is nobody's, as clients are told of it too."""
        await _refused(UnknownPath(f"Unknown request URL: {scope['method']} {scope['path']}."))(scope, receive, send)

    app.router.default = unknown
    return app


def _refused(exc: Exception) -> Response:
    answer = refusal(exc)
    return Response(answer.body, answer.status, {k.decode(): v.decode() for k, v in answer.headers})


async def _body(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > limit:
            raise BodyTooLarge(f"The request body has more than the limit of {limit} bytes.")
    return b"".join(parts)
