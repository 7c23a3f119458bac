"""Clients of the relay's as they look behind any ASGI server."""

from typing import Any

from gateway.relay.asgi import AsgiClient, Message, Receive, Send


async def _never() -> Message:
    raise AssertionError("nobody reads from this client")


async def _nowhere(message: Message) -> None:
    pass


def posted(path: str, receive: Receive = _never, send: Send = _nowhere) -> AsgiClient:
    """A POST, not read yet."""
    scope: dict[str, Any] = {
        "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": [],
    }  # fmt: skip
    return AsgiClient(scope, receive, send)


async def asgi_client(receive: Receive, send: Send = _nowhere) -> AsgiClient:
    """A POST whose empty body has been read; `receive` and `send` are its server's from there on."""
    begun = False

    async def body_first() -> Message:
        nonlocal begun
        if begun:
            return await receive()
        begun = True
        return {"type": "http.request", "body": b"", "more_body": False}

    client = posted("/", body_first, send)
    await client.body(0)
    return client
