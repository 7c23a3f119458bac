"""The dashboard's paths on the admin surface."""

import asyncio
from collections.abc import AsyncIterator, Callable
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from gateway.api.explain import summary, told
from gateway.decisions import DecisionRing
from gateway.page.snapshot import Snapshots
from routing.policies import policy_named

_ASSETS = {
    **dict.fromkeys(("page.js", "charts.js", "decision.js", "table.js"), "text/javascript"),
    "style.css": "text/css",
}
_SECURITY = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


class Switch(BaseModel):
    """Which policy shall be the default one."""

    policy: str


def routes(
    snapshots: Snapshots, decisions: DecisionRing, switch: Callable[[str], None] | None, stopping: Callable[[], bool]
) -> APIRouter:
    """switch: sets the policy that models without one of their own have; None where that is not allowed.

    stopping: whether the gateway waits for what runs to end.
    """
    router = APIRouter()
    folder = files("gateway.page") / "static"

    @router.get("/decisions", summary="The last decisions, newest first, and what came of them")
    async def recent(limit: int = 50) -> list[dict[str, object]]:
        return [dict(summary(kept)) for kept in decisions.recent(max(0, limit))]

    @router.get("/decisions/{id}", summary="One decision with every candidate, by request id")
    async def one(id: str) -> dict[str, object]:
        kept = decisions.get(id)
        if kept is None:
            raise HTTPException(404, f"no decision of a request {id!r} is held; the last ones are at /decisions")
        return dict(told(kept))

    @router.get("/live", summary="The fleet and its traffic, as server-sent events, one a second")
    async def live() -> StreamingResponse:
        return StreamingResponse(_events(snapshots, stopping), media_type="text/event-stream", headers=_SECURITY)

    @router.get("/snapshot", summary="The fleet and its traffic, once")
    async def snapshot() -> Response:
        return Response(await snapshots.current(), media_type="application/json")

    @router.post("/policy", summary="Set the policy of models that have none of their own, where that is allowed")
    async def set_policy(wanted: Switch) -> JSONResponse:
        if switch is None:
            raise HTTPException(403, "page.policy_switch is not set")
        try:
            name = policy_named(wanted.policy).name
        except ValueError as exc:
            raise HTTPException(400, str(exc)) from exc
        switch(name)
        return JSONResponse({"policy": name})

    @router.get("/dashboard", include_in_schema=False)
    async def page() -> Response:
        return Response((folder / "index.html").read_bytes(), media_type="text/html", headers=_SECURITY)

    @router.get("/dashboard/{name}", include_in_schema=False)
    async def asset(name: str) -> Response:
        if name not in _ASSETS:
            raise HTTPException(404, "no such file")
        return Response((folder / name).read_bytes(), media_type=_ASSETS[name], headers=_SECURITY)

    return router


async def _events(snapshots: Snapshots, stopping: Callable[[], bool]) -> AsyncIterator[bytes]:
    yield b"retry: 500\n\n"
    while not stopping():
        yield b"data: %b\n\n" % await snapshots.current()
        await asyncio.sleep(1)
