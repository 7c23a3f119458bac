"""What a replica is told of the way that a request took."""

from gateway.relay.client import Client
from gateway.relay.upstream import RawHeaders

VIA = b"1.1 kvgate"

FORWARDED = frozenset((b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"via"))
"""What a client may say of the way so far, in lower case."""
_KEPT = FORWARDED | {b"host"}


def forwarded(client: Client) -> RawHeaders:
    """`X-Forwarded-For` and `Via` with this hop added; `-Proto` and `-Host` as they are, or as the client has them.

    Names in lower case, each once.
    """
    address, scheme = client.peer
    if FORWARDED.isdisjoint(client.fields):
        headers = [(b"x-forwarded-for", address), (b"x-forwarded-proto", scheme), (b"via", VIA)]
        host = client.fields.get(b"host")
        if host:
            headers.append((b"x-forwarded-host", host))
        return headers
    had: dict[bytes, bytes] = {}
    for name, value in client.headers:
        if name in _KEPT:
            had[name] = had[name] + b", " + value if name in had and name != b"host" else value
    headers = [
        (b"x-forwarded-for", had[b"x-forwarded-for"] + b", " + address if b"x-forwarded-for" in had else address),
        (b"x-forwarded-proto", had.get(b"x-forwarded-proto") or scheme),
        (b"via", had[b"via"] + b", " + VIA if b"via" in had else VIA),
    ]
    host = had.get(b"x-forwarded-host") or had.get(b"host")
    if host:
        headers.append((b"x-forwarded-host", host))
    return headers
