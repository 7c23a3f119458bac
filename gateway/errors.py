"""
What can go wrong, as types:

* BadRequest              the client's fault: says what and where
  - BodyTooLarge          more bytes than a request may have
  - UnknownPath           nothing is served there
  - UnsupportedEncoding   its body is compressed in a way that is not read
* Unauthorized            no key, or one that is not known
* Forbidden               the key may not do that
* AdmissionRefused        too much is asked for just now
  - RateLimited           of a key's requests or tokens a minute
  - QueueFull             all places in the queue are taken
  - QueueTimeout          it waited too long there
* ClientGone              the client hung up
* GatewayStopped          the gateway ends, and waits no longer for the answer
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


class UnsupportedEncoding(BadRequest):
    """The body is compressed in a way that is not read."""


class Unauthorized(Exception):
    """Nobody knows who asks."""


class Forbidden(BadRequest):
    """Who asks may not do that."""


class AdmissionRefused(Exception):
    """A later try may succeed. reason: in one word. retry_after: seconds until then."""

    def __init__(self, message: str, reason: str, retry_after: float) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after


class RateLimited(AdmissionRefused):
    """A rate limit is reached. kind: `requests` or `tokens`."""

    def __init__(self, kind: str, retry_after: float) -> None:
        super().__init__(f"Rate limit reached for this API key: {kind} per minute.", kind, retry_after)


class QueueFull(AdmissionRefused):
    """No place is left in the queue."""

    def __init__(self) -> None:
        super().__init__("Too many requests are waiting.", "queue_full", 1.0)


class QueueTimeout(AdmissionRefused):
    """It waited as long as a request may."""

    def __init__(self) -> None:
        super().__init__("The request waited too long for its turn.", "queue_timeout", 1.0)


class ClientGone(Exception):
    """The client hung up; nobody is there to answer."""


class GatewayStopped(Exception):
    """The gateway ends, and waits no longer for the answer; a replica may be working on it."""


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
