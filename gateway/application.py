"""The ASGI application, and what runs beside its requests."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from gateway.api.paths import PROBES, is_engines
from gateway.app import Gateway
from gateway.background import Background
from gateway.config import Config
from gateway.relay.asgi import Receive, Send
from gateway.relay.connections import Connections
from gateway.relay.credentials import Credentials
from gateway.relay.credentials import client as replica_client
from gateway.relay.exchange import Exchange

Beside = Callable[[Gateway], Coroutine[Any, Any, None]]
"""What else runs while a gateway does."""


@asynccontextmanager
async def running(config: Config, beside: Sequence[Beside] = ()) -> AsyncIterator[Gateway]:
    """A gateway that watches its replicas and takes in their events until left."""
    credentials = Credentials(config)
    async with replica_client(config, credentials) as client, Background() as background:
        gateway = Gateway(config, client, credentials, background)
        gateway.metrics.registry.register(background)
        tasks = [background.keep(_name(start), partial(start, gateway)) for start in beside]
        try:
            yield gateway
        finally:
            for task in tasks:
                task.cancel()
            await gateway.close()


def _name(start: Beside) -> str:
    """Of the function, whatever of its arguments it has already."""
    return str(getattr(start, "func", start).__name__)


class Application:
    """The ASGI application: what is an engine's is relayed, the rest is the admin surface."""

    def __init__(self, config: Config, connections: Connections, beside: Sequence[Beside] = ()) -> None:
        self._config = config
        self._connections = connections
        self._own_port = config.listen.admin_port is not None
        self._beside = beside
        self._gateway: Gateway | None = None

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """ASGI. The server sends `lifespan` before any request."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        gateway = self._gateway
        assert gateway is not None
        if self.is_clients(scope["path"]):
            await gateway.openai(scope, receive, send)
        else:
            await gateway.admin(scope, receive, send)

    def answer(self, exchange: Exchange, asgi: Callable[[Exchange], Awaitable[None]]) -> Awaitable[None]:
        """What our own server calls, see `Direct`."""
        assert self._gateway is not None
        return self._gateway.openai.answer(exchange) if self.is_clients(exchange.path) else asgi(exchange)

    def stopping(self) -> None:
        """From now on the gateway is not ready, so that nobody sends it more."""
        if self._gateway is not None:
            self._gateway.stopping = True

    def is_clients(self, path: str) -> bool:
        """Whether it is answered, or refused, as clients' requests are."""
        return is_engines(path) or (self._own_port and path not in PROBES)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with running(self._config, self._beside) as self._gateway:
            self._gateway.metrics.registry.register(self._connections)
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
