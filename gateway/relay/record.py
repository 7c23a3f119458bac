"""What there is to tell of a request when all of it is over."""

import msgspec

from gateway.relay.inbound import Inbound
from gateway.relay.usage import Usage
from routing.decision import Decision


class Record(msgspec.Struct, frozen=True, gc=False):
    """What was decided, predicted and observed: behind the log line, the trace span and the page.

    Holds nothing of the request's text, tokens or keys, so that it may be kept.
    """

    id: str
    at: float
    """when it ended, seconds since the epoch"""
    path: str
    model: str
    """as the client named it; "" where it named none"""
    tenant: str
    """whose key it came with; "" where no keys are asked for"""
    single: bool
    """one prompt and one answer to it"""
    decision: Decision
    status: int
    how: str
    """the metric's `outcome`: that of the relay, or `engine_error`"""
    usage: Usage | None
    """what the engine counted"""
    done: bool
    """a stream that said so at its end"""
    ttft: float | None
    """seconds from arrival to the answer's first byte; None if none came"""
    duration: float
    """seconds from arrival to the end"""
    overhead: float
    """of those, what the gateway itself took before it had the request sent; waiting in its queue is not in it"""
    itl: float | None
    """seconds between two tokens of a stream, on average; None where its tokens were not counted"""
    among: int
    """candidates that there were; the decision may have been left only the best of them"""


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A request that a replica answered, when all of it is over, and what there is to tell of it."""

    inbound: Inbound
    record: Record
