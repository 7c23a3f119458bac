"""What operators see of each replica, and how they take one out of rotation."""

from collections.abc import Callable

from fastapi import APIRouter, HTTPException

from routing.fleet import Fleet
from routing.health import Health
from routing.types import ReplicaId


def replica_routes(fleet: Fleet, health: Health, now: Callable[[], float], *, changeable: bool) -> APIRouter:
    """`/replicas`. changeable: whether these routes may change anything; where clients come they must not."""
    router = APIRouter()

    def row(replica: ReplicaId) -> dict[str, object]:
        engines = [engine for engine in fleet if engine.id.replica == replica]
        if not engines:
            raise HTTPException(404, f"no replica {replica}")
        return {
            "replica": replica,
            "url": engines[0].replica.url,
            "models": [card.id for card in engines[0].replica.cards],
            "state": health.state(replica, now()),
            "in_flight": sum(engine.load.in_flight for engine in engines),
        }

    @router.get("/replicas", summary="Every member of the fleet and its state")
    async def replicas() -> list[dict[str, object]]:
        return [row(replica) for replica, _ in health.states(now())]

    if changeable:

        @router.post("/replicas/{replica}/drain", summary="No new requests there; what runs goes on")
        async def drain(replica: str) -> dict[str, object]:
            row(ReplicaId(replica))
            health.drain(ReplicaId(replica), True)
            return row(ReplicaId(replica))

        @router.post("/replicas/{replica}/resume", summary="Requests may go there again")
        async def resume(replica: str) -> dict[str, object]:
            row(ReplicaId(replica))
            health.drain(ReplicaId(replica), False)
            return row(ReplicaId(replica))

    return router
