"""
What can go wrong, as types:

* BadRequest              the client's fault: says what and where
  - BodyTooLarge          more bytes than a request may have
  - UnknownPath           nothing is served there
* ClientGone              the client hung up
* UpstreamError           the replica's fault
  - UpstreamUnreachable   refused, or a reused connection closed before one byte of answer: nothing was done there
    * NoConnection        all connections that there may be are in use, or the replica has left
    * UpstreamBusy        it answered 503: it takes nothing now
  - UpstreamTimeout       it did not answer in time
  - UpstreamBroken        it closed, or sent what is not HTTP, after the request was sent
"""

from collections.abc import Sequence


class BadRequest(Exception):
    """The request can't be understood. `param` names the field, if it is one field's fault."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class BodyTooLarge(BadRequest):
    """The body is over the limit."""


class UnknownPath(BadRequest):
    """Nothing is served under this path and method."""


class ClientGone(Exception):
    """The client hung up; nobody is there to answer."""


class UpstreamError(Exception):
    """A replica failed to answer."""


class UpstreamUnreachable(UpstreamError):
    """Nothing was done there, so the request may go to another replica."""


class NoConnection(UpstreamUnreachable):
    """It was not even tried to reach it."""


class UpstreamBusy(UpstreamUnreachable):
    """It answered 503, as engines do whose queue is full, that are paused, or that are being scaled.

    headers, body: of that answer, for the client if nobody else takes the request.
    """

    def __init__(self, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        super().__init__("it takes no requests now (503)")
        self.headers = headers
        self.body = body


class UpstreamTimeout(UpstreamError):
    """No answer within the limit; the replica may still be working on it."""


class UpstreamBroken(UpstreamError):
    """The answer ended too early or is not HTTP."""
