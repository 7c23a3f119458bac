"""A request's body that is too long to be held: passed on as it comes."""

from collections.abc import Callable

from gateway.errors import BodyTooLarge
from gateway.relay.client import Client


class Upload:
    """A body of which the beginning has been read, to know where it goes. It can be sent once.

    sent: some of it has been asked for, so that a replica may have it.
    """

    def __init__(
        self, client: Client, begun: bytes, length: int | None, look: Callable[[bytes], None], limit: int | None
    ) -> None:
        """length: of the whole in bytes, if that is known; else it goes on in chunks. limit: what it may be at most.

        look: called with each further part; what it raises ends the request.
        """
        self.length = length
        self.sent = False
        self._client = client
        self._begun = begun
        self._look = look
        self._limit = limit
        self._size = len(begun)
        self._ended = False

    async def read(self) -> bytes:
        """The next bytes for the wire, b"" once all have been given.

        Raises ClientGone, BodyTooLarge, and what `look` does.
        """
        if not self.sent:
            self.sent = True
            data, self._begun = self._begun, b""
            return self._framed(data)
        if self._ended:
            return b""
        data = await self._client.part()
        if not data:
            self._ended = True
            return b"" if self.length is not None else b"0\r\n\r\n"
        self._size += len(data)
        if self._limit is not None and self._size > self._limit:
            raise BodyTooLarge(f"The request body has more than the limit of {self._limit} bytes.")
        self._look(data)
        return self._framed(data)

    def _framed(self, data: bytes) -> bytes:
        return data if self.length is not None else b"%x\r\n%b\r\n" % (len(data), data)
