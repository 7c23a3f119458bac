"""A client's request as the relay sees it."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Inbound(NamedTuple):
    """One request, read to its end."""

    scope: Mapping[str, Any]
    """ASGI's, for path and headers"""
    id: str
    model: str
    """as the client names it; "" where it names none"""
    body: bytes
    """as it goes to the replica"""
    hide_usage: bool
    """the gateway added to the body that a stream shall report its usage, so the client must not see that"""
    arrived: float
    """seconds of the gateway's monotonic clock"""
    single: bool = True
    """one prompt and one answer to it; of several, vLLM reports the cached tokens of only one"""
    deadline: float | None = None
    """when the answer must be complete, by the same clock; None for no limit"""

    @property
    def method(self) -> bytes:
        """GET, POST, ..."""
        method: str = self.scope["method"]
        return method.encode("ascii")

    @property
    def target(self) -> bytes:
        """Path and query as the client wrote them."""
        path: bytes = self.scope["raw_path"]
        query: bytes = self.scope["query_string"]
        return b"%b?%b" % (path, query) if query else path
