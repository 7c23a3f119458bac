"""Web pages of other origins: browsers keep answers from them unless these say that they may be read (CORS)."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.middleware.cors import CORSMiddleware

from gateway.application import Application
from gateway.relay.asgi import Receive, Scope, Send
from gateway.relay.exchange import Exchange


class CrossOrigin:
    """Lets pages of some origins do what clients do; what operators ask stays closed to them."""

    def __init__(self, application: Application, origins: Sequence[str]) -> None:
        """origins: as browsers name them; `*` is any."""
        self._application = application
        self._opened = CORSMiddleware(
            application, origins, allow_methods=["*"], allow_headers=["*"], expose_headers=["*"]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        opened = scope["type"] == "http" and self._application.is_clients(scope["path"])
        await (self._opened if opened else self._application)(scope, receive, send)

    def answer(self, exchange: Exchange, asgi: Callable[[Exchange], Awaitable[None]]) -> Awaitable[None]:
        """`Direct`'s. Only a browser says which page asks."""
        return asgi(exchange) if b"origin" in exchange.fields else self._application.answer(exchange, asgi)
