"""httpx over the relay's own connections, for what the gateway itself asks replicas: in a large fleet a lot."""

import asyncio
import ssl

import httpx

from gateway.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable
from gateway.relay.limits import Limits
from gateway.relay.origin import Origin
from gateway.relay.pool import Pool

_POOLS = 64
"""kept at least; above that, those without a connection make room for others"""


async def untied(response: httpx.Response) -> None:
    """httpx's, a hook for responses: its own refer to themselves by their stream, which is read by now."""
    response.stream = httpx.ByteStream(b"")


class PoolTransport(httpx.AsyncBaseTransport):
    """Answers are read whole. A request's `read` timeout is for all of it. tls: used for https."""

    def __init__(self, tls: ssl.SSLContext, limits: Limits | None = None) -> None:
        self._tls = tls
        self._limits = limits
        self._pools: dict[Origin, Pool] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """httpx's. Raises httpx.TransportError."""
        url = request.url
        origin = Origin(url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        limit = request.extensions.get("timeout", {}).get("read")
        try:
            async with asyncio.timeout(limit):
                return await self._exchange(self._pool(origin), request, await request.aread())
        except (TimeoutError, UpstreamTimeout) as exc:
            raise httpx.ReadTimeout(str(exc) or f"no answer in {limit:g} s", request=request) from exc
        except UpstreamUnreachable as exc:
            refused = not isinstance(exc.__cause__, TimeoutError)
            error = httpx.ConnectError if refused else httpx.ConnectTimeout
            raise error(str(exc), request=request) from exc
        except UpstreamError as exc:
            raise httpx.ReadError(str(exc), request=request) from exc

    async def aclose(self) -> None:
        """Close what is idle, and the rest after its answer."""
        for pool in self._pools.values():
            pool.close()

    async def _exchange(self, pool: Pool, request: httpx.Request, body: bytes) -> httpx.Response:
        response = await pool.send(request.method.encode(), request.url.raw_path, request.headers.raw, body)
        try:
            parts = []
            while part := await response.read():
                parts.append(part)
        finally:
            response.close()
        return httpx.Response(response.status, headers=list(response.headers), content=b"".join(parts))

    def _pool(self, origin: Origin) -> Pool:
        pool = self._pools.get(origin)
        if pool is None:
            if len(self._pools) >= _POOLS:
                self._pools = {known: one for known, one in self._pools.items() if one.open}
            pool = self._pools[origin] = Pool(origin, self._limits, self._tls)
        return pool
