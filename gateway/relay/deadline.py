"""The time that a request may take in all, over every attempt and the whole answer."""

import asyncio
from collections.abc import Awaitable

from gateway.errors import UpstreamTimeout
from gateway.relay.upstream import UpstreamResponse

_PASSED = "the request's time is over"


async def answered_within(left: float, answer: Awaitable[UpstreamResponse]) -> UpstreamResponse:
    """Wait for an answer's head. left: seconds. Raises UpstreamTimeout."""
    try:
        async with asyncio.timeout(left):
            return await answer
    except TimeoutError as exc:
        raise UpstreamTimeout(_PASSED) from exc


def ended_within(left: float, upstream: UpstreamResponse) -> asyncio.TimerHandle:
    """Let an answer fail that is not complete then. Returns the timer, to be cancelled with the answer's end."""
    return asyncio.get_running_loop().call_later(max(0.0, left), upstream.fail, UpstreamTimeout(_PASSED))
