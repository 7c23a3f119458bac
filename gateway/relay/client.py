"""A client's request and the way back to it, whichever server it came through."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gateway.relay.upstream import RawHeaders

Peer = tuple[bytes, bytes]
"""A client's address, and by which scheme it came"""


class Client(Protocol):
    """One request. The application starts an answer, writes its parts, and drains between them where there is no room.

    Nothing is awaited for a part that there is room for, which is most of them.
    """

    @property
    def method(self) -> str:
        """GET, POST, ..."""
        ...

    @property
    def path(self) -> str:
        """Without the query, percent-decoded."""
        ...

    @property
    def target(self) -> bytes:
        """Path and query as the client wrote them."""
        ...

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """All of them; names in lower case."""
        ...

    @property
    def fields(self) -> Mapping[bytes, bytes]:
        """The headers by name, the first of each."""
        ...

    @property
    def peer(self) -> Peer:
        """Where it comes from: the other end of the connection."""
        ...

    @property
    def gone(self) -> bool:
        """The client has hung up before its answer was complete."""
        ...

    async def body(self, limit: int) -> bytes:
        """The whole body. limit: bytes. Raises BodyTooLarge, ClientGone."""
        ...

    async def part(self) -> bytes:
        """What has come of the body since the last part, as soon as there is any; b"" at its end. Raises ClientGone."""
        ...

    def start(self, status: int, headers: RawHeaders) -> None:
        """Begin the answer. Its head goes out with the first part, which may be empty."""
        ...

    def write(self, data: bytes, *, more: bool) -> bool:
        """A part of the answer's body. more: it is not the last. Dropped once the client has gone.

        Returns whether there is room for another; if not, the client is slower than what is written to it.
        """
        ...

    async def drain(self) -> None:
        """Wait until there is room again, or the client has gone."""
        ...

    def on_hang_up(self, callback: Callable[[], None]) -> None:
        """Have `callback` called at once when the client goes before its answer is complete, now if it has."""
        ...
