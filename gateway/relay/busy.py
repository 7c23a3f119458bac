"""A replica's 503: it takes nothing now, and nothing was begun."""

from gateway.errors import UpstreamBusy
from gateway.relay.upstream import UpstreamResponse

MOST_BYTES = 65_536
"""Of such an answer's body that are kept; a longer one is cut, and its connection with it."""

_KEPT = (b"content-encoding", b"content-type", b"retry-after")


async def busy(upstream: UpstreamResponse) -> UpstreamBusy:
    """Read the answer and close it. Raises UpstreamError where it breaks off."""
    parts, size = [], 0
    try:
        while not upstream.ended or upstream.buffered:
            data = await upstream.read()
            size += len(data)
            if size > MOST_BYTES:
                break
            parts.append(data)
    finally:
        upstream.close()
    return UpstreamBusy([(name, value) for name, value in upstream.headers if name.lower() in _KEPT], b"".join(parts))
