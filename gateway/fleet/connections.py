"""Connections to a replica as the configuration has them."""

import ssl

from gateway.config import Limits as RequestLimits
from gateway.relay.limits import Limits
from gateway.relay.origin import Origin
from gateway.relay.pool import Pool


def make_pool(url: str, limits: RequestLimits, tls: ssl.SSLContext) -> Pool:
    """A replica's pool. url: scheme and authority. tls: used for https."""
    return Pool(
        Origin.parse(url),
        Limits(
            connect=limits.connect_timeout,
            response=limits.response_timeout,
            read=limits.idle_timeout,
            keep_alive=limits.idle_connection,
            connections=limits.max_connections,
            buffer_bytes=limits.buffer_bytes,
        ),
        tls,
    )
