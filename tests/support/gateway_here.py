"""A whole gateway on a real socket, in the test's own process."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from gateway.app import Gateway
from gateway.application import Application
from gateway.config import Config
from gateway.front import Front, front
from gateway.relay.connections import Connections

DEADLINE = 30.0


@dataclass
class Here:
    """gateway: its parts. server: what listens."""

    url: str
    gateway: Gateway
    server: Front
    client: httpx.AsyncClient

    async def metric(self, name: str) -> dict[str, float]:
        """A metric's values by labels."""
        text = (await self.client.get(self.url + "/metrics")).text
        lines = [line.removeprefix(name).rsplit(" ", 1) for line in text.splitlines() if line.startswith(name + "{")]
        return {labels: float(value) for labels, value in lines}

    async def in_flight(self) -> int:
        """Leases that are out."""
        engines = (await self.client.get(self.url + "/index")).json()
        return sum(engine["in_flight"] for engine in engines)


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait until the condition holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE
    while not condition():
        assert loop.time() < end, f"not within {DEADLINE} s: {what}"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def gateway_here(settings: Mapping[str, object], *, joined: int = 1) -> AsyncIterator[Here]:
    """A gateway with these settings until left. joined: how many replicas are waited for."""
    # A gateway that ended may still be importing it in a thread, and two imports at once it does not survive.
    importlib.import_module("transformers").AutoTokenizer  # noqa: B018
    listen = {"host": "127.0.0.1", "port": 0, **dict(settings.get("listen", {}))}  # type: ignore[call-overload]
    # Whatever else this process does meanwhile is no fault of a replica.
    probing = {"timeout": DEADLINE, **dict(settings.get("probing", {}))}  # type: ignore[call-overload]
    config = Config.model_validate({"policy": "round-robin", **settings, "listen": listen, "probing": probing})
    made: list[Gateway] = []

    async def note(gateway: Gateway) -> None:
        made.append(gateway)

    bounds = config.listen
    connections = Connections(
        bounds.head_timeout, bounds.body_timeout, bounds.answer_timeout, bounds.connections_per_address
    )
    application = Application(config, connections, [note])
    server = front(application, config.listen, config.limits, connections)
    serving = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started and made, "it listens")
        gateway = made[0]
        await until(lambda: len(list(gateway.health.states(0.0))) >= joined, "the replicas have joined")
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(timeout=DEADLINE) as client:
            yield Here(f"http://127.0.0.1:{port}", gateway, server, client)
    finally:
        server.should_exit = True
        await serving
