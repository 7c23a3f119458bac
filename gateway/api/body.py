"""Reads a request from the ASGI server."""

from collections.abc import Mapping
from typing import Any

from gateway.errors import BodyTooLarge, ClientGone
from gateway.relay.watch import Receive


async def read_body(fields: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes:
    """The whole body. fields: the request's headers. limit: bytes. Raises BodyTooLarge, ClientGone."""
    stated = fields.get(b"content-length", b"")
    if stated.isdigit() and int(stated) > limit:
        raise BodyTooLarge(f"The request body has {int(stated)} bytes, the limit is {limit}.")
    message = await receive()
    data: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body"):
        parts = [data]
    else:
        parts, size = [data], len(data)
        while message["type"] == "http.disconnect" or message.get("more_body"):
            if message["type"] == "http.disconnect":
                raise ClientGone
            message = await receive()
            data = message.get("body", b"")
            parts.append(data)
            size += len(data)
            if size > limit:
                raise BodyTooLarge(f"The request body has more than the limit of {limit} bytes.")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def header_fields(scope: Mapping[str, Any]) -> Mapping[bytes, bytes]:
    """A request's headers by name (lower case), the first of each."""
    return dict(reversed(scope["headers"]))
