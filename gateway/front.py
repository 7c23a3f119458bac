"""The sockets at which the gateway answers, under uvicorn."""

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from socket import SO_SNDBUF, SOL_SOCKET, socket
from typing import Any, cast

import uvicorn

from gateway.app import Gateway
from gateway.application import Application
from gateway.config import Limits, Listen
from gateway.cross_origin import CrossOrigin
from gateway.relay.connections import Connections
from gateway.relay.server import ServerProtocol

logger = logging.getLogger(__name__)


class Front(uvicorn.Server):
    """Where clients come. Told to stop it says so first, and goes on answering for `delay` seconds.

    stopping: called when it is told to stop. buffer: bytes of an answer that the system may keep for a slow client.
    """

    def __init__(self, config: uvicorn.Config, delay: float, stopping: Callable[[], None], buffer: int) -> None:
        super().__init__(config)
        self._buffer = buffer
        self._delay = delay
        self._stopping = stopping

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """uvicorn's. What is set for a socket that listens is inherited by those that it accepts."""
        await super().startup(sockets)
        for server in self.servers:
            for each in server.sockets:
                each.setsockopt(SOL_SOCKET, SO_SNDBUF, self._buffer)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """uvicorn's: what runs may end within `timeout_graceful_shutdown`; nothing new is taken after the delay."""
        self._stopping()
        if self._delay and not self.force_exit:
            logger.info("not ready any more; still answering for %g s", self._delay)
            await asyncio.sleep(self._delay)
        await super().shutdown(sockets)


class _Beside(uvicorn.Server):
    """A second server, which leaves signals to the first."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def front(application: Application, listen: Listen, limits: Limits, connections: Connections) -> Front:
    """The clients' side."""
    origins = listen.allowed_origins
    config = uvicorn.Config(
        cast(Any, CrossOrigin(application, origins) if origins else application),
        host=listen.host,
        port=listen.port,
        loop="uvloop",
        http=cast(type[asyncio.Protocol], partial(ServerProtocol, connections=connections)),
        timeout_keep_alive=cast(int, listen.idle_timeout),
        timeout_graceful_shutdown=limits.drain,
        lifespan="on",
        **_COMMON,
    )
    return Front(config, listen.drain_delay, application.stopping, limits.buffer_bytes)


async def operators_front(listen: Listen, gateway: Gateway) -> None:
    """Serve the operators' side at a port of its own until cancelled."""
    assert listen.admin_port is not None
    host = listen.admin_host or listen.host
    server = _Beside(uvicorn.Config(gateway.admin, host=host, port=listen.admin_port, lifespan="off", **_COMMON))
    try:
        await server.serve()
    finally:
        for each in getattr(server, "servers", ()):
            each.close()


_COMMON: dict[str, Any] = {
    "proxy_headers": False,
    "ws": "none",
    "access_log": False,
    "log_config": None,
    "server_header": False,
    "date_header": False,
}
