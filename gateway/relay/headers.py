"""Which headers cross the gateway, in either direction."""

from gateway.relay.upstream import RawHeaders

# RFC 9110 7.6.1. Names are lower case here; uvicorn lowers a client's, replicas may spell as they like.
_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
NOT_FORWARDED = _HOP_BY_HOP | {
    *(b"host", b"content-length", b"expect", b"proxy-authorization", b"proxy-authenticate"),
    b"origin",  # an engine would say which web pages may read its answer, and that is the gateway's to say
}
"""What of a client's headers is never for replicas."""
_NOT_RETURNED = _HOP_BY_HOP | {b"x-request-id", b"via"}
_OWN_PREFIX = b"x-kvgate-"


def message_head(first_line: bytes, headers: RawHeaders) -> bytes:
    """First line and headers as they go on the wire. Raises ValueError if one of them holds a line break."""
    lines = [first_line, *map(b": ".join, headers), b"", b""]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1:
        raise ValueError("a line break inside a header")
    return head


def origin_form(target: bytes) -> bytes:
    """Path and query of a request line's target in absolute form (RFC 9112 3.2.2); `*` or an authority as they are."""
    scheme, _, rest = target.partition(b"://")
    if not rest or b"/" in scheme:
        return target
    _, slash, path = rest.partition(b"/")
    return slash + path or b"/"


def request_headers(
    headers: RawHeaders,
    *,
    authority: bytes,
    length: int | None,
    dropped: frozenset[bytes] = NOT_FORWARDED,
    extra: RawHeaders = (),
) -> list[tuple[bytes, bytes]]:
    """A client's headers as the replica gets them: hop-by-hop and our own out, Host and Content-Length set right.

    headers: names in lower case. authority: the replica's. length: of the body in bytes, None for a request without.
    dropped: not for replicas, in lower case; `NOT_FORWARDED`, and what `extra` replaces.
    extra: set by the gateway.
    """
    named: frozenset[bytes] = frozenset()
    kept = [(b"host", authority)]
    for pair in headers:
        name = pair[0]
        if name not in dropped:
            if not name.startswith(_OWN_PREFIX):
                kept.append(pair)
        elif name == b"connection":
            named = named.union(_named_by(pair[1]))
    if named:
        kept = [pair for pair in kept if pair[0] not in named]
    kept.extend(extra)
    if length is not None:
        kept.append((b"content-length", b"%d" % length))
    return kept


def response_headers(
    headers: RawHeaders, *, keep_length: bool = True, extra: RawHeaders = ()
) -> list[tuple[bytes, bytes]]:
    """A replica's headers as the client gets them: hop-by-hop out, and what the gateway says itself, which is `extra`.

    keep_length: the body goes on unchanged.
    """
    named: frozenset[bytes] = frozenset()
    kept = []
    for name, value in headers:
        lower = name.lower()
        if lower not in _NOT_RETURNED:
            if not lower.startswith(_OWN_PREFIX):
                kept.append((lower, value))
        elif lower == b"connection":
            named = named.union(_named_by(value))
    if not keep_length:
        named |= {b"content-length"}
    if named:
        kept = [pair for pair in kept if pair[0] not in named]
    kept.extend(extra)
    return kept


def header(headers: RawHeaders, name: bytes) -> bytes:
    """The first value under `name` (lower case), or b""."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return b""


def in_chunks_at_most(headers: RawHeaders) -> RawHeaders:
    """An answer's `headers`, if its body comes plain or in chunks. Raises ValueError for any other transfer coding.

    Of another one only the chunks would be taken off, and the rest go on as if it were plain.
    """
    # The length first: to lower all names takes twice as long.
    codings = [value for name, value in headers if len(name) == 17 and name.lower() == b"transfer-encoding"]
    if codings and (len(codings) > 1 or codings[0].lower() != b"chunked"):
        raise ValueError("a transfer coding that is not read")
    return headers


def ends_with_connection(headers: RawHeaders) -> bool:
    """Whether an answer's body is neither chunked nor of a known length (RFC 9112 6.3)."""
    for name, value in headers:
        lower = name.lower()
        if lower == b"content-length":
            return False
        if lower == b"transfer-encoding" and b"chunked" in value.lower():
            return False
    return True


def _named_by(connection: bytes) -> frozenset[bytes]:
    """The headers that a Connection header declares to be hop-by-hop."""
    if connection in (b"keep-alive", b"close"):
        return frozenset()
    return frozenset(token.strip().lower() for token in connection.split(b",")) - {b"host"}
