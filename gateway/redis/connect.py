"""Connections to Redis."""

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError

from gateway.config import IndexConfig
from gateway.redis.scripts import Client

_PATIENCE = 1.0
"""seconds without an answer after which a connection is given up; requests wait much shorter"""
_CONNECTIONS = 64


def connect(config: IndexConfig) -> Client:
    """A client for the configured URL. Nothing is sent yet."""
    assert config.redis_url is not None
    # Once more on a connection that had been closed while it was idle, and never after silence.
    retry = Retry(NoBackoff(), 1, supported_errors=(ConnectionError,))
    # In protocol 3 the library does not look whether a connection that was idle has been closed.
    if config.redis_cluster:
        return RedisCluster.from_url(
            config.redis_url, protocol=2, socket_timeout=_PATIENCE, socket_connect_timeout=_PATIENCE, retry=retry
        )
    return Redis.from_url(
        config.redis_url,
        protocol=2,
        socket_timeout=_PATIENCE,
        socket_connect_timeout=_PATIENCE,
        retry=retry,
        max_connections=_CONNECTIONS,
    )
