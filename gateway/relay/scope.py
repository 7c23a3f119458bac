"""What ASGI says of a request, from what the parser says of it."""

import asyncio
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote

Scope = MutableMapping[str, Any]

_ASGI = {"version": "3.0", "spec_version": "2.3"}


def connection_scope(transport: asyncio.BaseTransport) -> Scope:
    """The part that is the same for all requests of a connection."""
    server, client = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    return {
        "type": "http",
        "asgi": _ASGI,
        "root_path": "",
        "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
        "server": tuple(server[:2]) if isinstance(server, tuple) else None,
        "client": tuple(client[:2]) if isinstance(client, tuple) else None,
    }


def request_scope(
    connection: Scope, method: bytes, target: bytes, version: str, headers: list[tuple[bytes, bytes]]
) -> Scope:
    """The whole. target: of the request line. headers: names in lower case. Raises ValueError for a path not ASCII."""
    raw_path, _, query = (target if target.startswith(b"/") else _origin_form(target)).partition(b"?")
    path = raw_path.decode("ascii")
    return {
        **connection,
        "http_version": version,
        "method": method.decode("ascii"),
        "path": unquote(path) if "%" in path else path,
        "raw_path": raw_path,
        "query_string": query,
        "headers": headers,
    }


def _origin_form(target: bytes) -> bytes:
    """Path and query of a target in absolute form (RFC 9112 3.2.2), `*` or an authority as they are."""
    scheme, _, rest = target.partition(b"://")
    if not rest or b"/" in scheme:
        return target
    _, slash, path = rest.partition(b"/")
    return slash + path or b"/"
