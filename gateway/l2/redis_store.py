"""A Redis or Valkey server as the place of LMCache's chunks: existence of many keys in one round trip."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from redis import Redis
from redis.exceptions import RedisError

from gateway.l2.store import Progress

T = TypeVar("T")
_BATCH = 64
"""chunks asked for in one round trip"""
_TIMEOUT = 1.0
_METADATA = "metadata"
"""what LMCache's `redis://` connector appends to the key that it asks for; `resp://` and `valkey://` append nothing"""


class RedisStore:
    """Asks with pipelined EXISTS. Sizes are not looked at: a value is set as a whole.

    Its names are keys, not files: they keep their slashes and end without `.data`.
    """

    def __init__(self, client: Redis, suffix: str = _METADATA) -> None:
        """client: with a timeout. suffix: of each key."""
        self._client = client
        self._suffix = suffix

    def leading(self, chunks: Sequence[Sequence[str]], progress: Progress) -> int:
        """See `Store`. The first chunk alone, then many at a time: most prompts are stored nowhere."""
        asked, batch = 0, 1
        while asked < len(chunks):
            end = min(asked + batch, len(chunks))
            names = [chunks[index] for index in range(asked, end)]
            for there in _translated(lambda: self._exist(names)):  # noqa: B023
                if not there:
                    return progress.chunks
                progress.chunks += 1
            asked, batch = end, _BATCH
        return progress.chunks

    def check(self) -> float:
        """See `Store`."""

        def ask() -> float:
            self._client.ping()
            memory = self._client.info("memory")
            most = int(memory.get("maxmemory", 0))
            return int(memory["used_memory"]) / most if most else 0.0

        return _translated(ask)

    def read(self) -> None:
        """See `Store`: what Redis holds it can give."""

    def forget(self) -> None:
        """See `Store`: nothing is remembered."""

    def close(self) -> None:
        """See `Store`."""
        self._client.close()

    def _exist(self, names: Sequence[Sequence[str]]) -> list[bool]:
        with self._client.pipeline(transaction=False) as pipeline:
            for parts in names:
                pipeline.exists(*(name + self._suffix for name in parts))
            return [count == len(parts) for count, parts in zip(pipeline.execute(), names, strict=True)]


def redis_store(url: str) -> RedisStore:
    """The store at LMCache's `remote_url`. A call without an answer fails after a second, which frees its thread."""
    scheme, _, rest = url.partition("://")
    plain = scheme in ("valkey", "resp")
    at = f"redis://{rest}" if plain else url
    client = Redis.from_url(at, protocol=2, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT)
    return RedisStore(client, "" if plain else _METADATA)


def _translated(call: Callable[[], T]) -> T:
    """Redis' errors as those of a place that can't be asked."""
    try:
        return call()
    except RedisError as exc:
        raise OSError(str(exc)) from exc
