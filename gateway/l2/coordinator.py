"""The routes that LMCache's servers call with `--coordinator-url`: they register, live, and report what changes."""

from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field

from gateway.l2.key_directory import Batch, KeyDirectory, Taken
from gateway.l2.names import server_file


class Registration(BaseModel):
    """A server. Other fields are of no use here."""

    instance_id: str = ""
    ip: str
    http_port: int


class Key(BaseModel):
    """A chunk's part of one rank."""

    chunk_hash_hex: Annotated[str, Field(pattern=r"^[0-9a-f]+$")]
    model_name: str
    kv_rank: Annotated[int, Field(ge=0)]
    object_group_id: Annotated[int, Field(ge=0)] = 0
    cache_salt: str = ""

    @property
    def name(self) -> str:
        """As a file of it would be called."""
        return server_file(self.model_name, self.kv_rank, self.object_group_id, self.chunk_hash_hex, self.cache_salt)


class Entry(BaseModel):
    """One change. Its tokens are not needed: a request's chunks are hashed as the server hashes them."""

    key: Key


class EventBatch(BaseModel):
    """Changes of one kind."""

    instance_id: Annotated[str, Field(min_length=1)]
    incarnation: Annotated[int, Field(ge=0)]
    seq: Annotated[int, Field(ge=1)]
    event_type: str
    tier: Literal["l1", "l2"]
    shared: bool = False
    entries: list[Entry] = Field(default_factory=list)

    def understood(self) -> Batch:
        """As the directory takes it."""
        names = [entry.key.name for entry in self.entries]
        return Batch(self.instance_id, self.incarnation, self.seq, self.event_type, self.tier, self.shared, names)


class Events(BaseModel):
    """What a server reports at a time."""

    batches: list[EventBatch] = Field(default_factory=list)


def coordinator_routes(directory: KeyDirectory) -> APIRouter:
    """The routes, which fill the directory."""
    router = APIRouter(tags=["LMCache"])

    @router.post("/instances", summary="One of LMCache's servers is there")
    async def register(server: Registration) -> dict[str, object]:
        address = f"{server.ip.strip()}:{server.http_port}"
        id = server.instance_id.strip() or address
        return {"instance_id": id, "re_registered": directory.register(id, address)}

    @router.put("/instances/{instance_id}/heartbeat", summary="It is still there")
    async def heartbeat(instance_id: str) -> dict[str, str]:
        if not directory.heartbeat(instance_id):
            raise HTTPException(404, "unknown instance: register first")
        return {"instance_id": instance_id}

    @router.delete("/instances/{instance_id}", summary="It is gone")
    async def leave(instance_id: str) -> dict[str, str]:
        directory.leave(instance_id)
        return {"instance_id": instance_id}

    @router.post("/events", summary="What it stored and deleted")
    async def events(reported: Events) -> dict[str, int]:
        counts = dict.fromkeys((taken.value for taken in Taken), 0)
        for batch in reported.batches:
            counts[directory.apply(batch.understood())] += 1
        return counts

    return router
