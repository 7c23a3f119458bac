"""Which headers cross the gateway, in either direction."""

from collections.abc import Iterable

from gateway.relay.upstream import RawHeaders

# RFC 9110 7.6.1. Names are lower case here; uvicorn lowers a client's, replicas may spell as they like.
_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
_NOT_FORWARDED = _HOP_BY_HOP | {b"host", b"content-length", b"expect", b"proxy-authorization", b"proxy-authenticate"}
_OWN_PREFIX = b"x-kvgate-"


def request_headers(
    headers: RawHeaders, *, authority: bytes, length: int | None, plain: bool = False, extra: RawHeaders = ()
) -> list[tuple[bytes, bytes]]:
    """A client's headers as the replica gets them: hop-by-hop and our own out, Host and Content-Length set right.

    headers: names in lower case. authority: the replica's. length: of the body in bytes, None for a request without.
    plain: the gateway will look into the answer, so the client's Accept-Encoding must not get it compressed.
    extra: set by the gateway; they replace the client's of the same names (lower case).
    """
    dropped = _NOT_FORWARDED
    kept = [(b"host", authority)]
    for name, value in headers:
        if name == b"connection" and value not in (b"keep-alive", b"close"):
            dropped = dropped.union(_tokens(value))
    if plain:
        dropped = dropped | {b"accept-encoding"}
    if extra:
        dropped = dropped.union(name for name, _ in extra)
    kept += [h for h in headers if h[0] not in dropped and not h[0].startswith(_OWN_PREFIX)]
    kept += extra
    if length is not None:
        kept.append((b"content-length", b"%d" % length))
    return kept


def response_headers(
    headers: RawHeaders, *, keep_length: bool = True, extra: RawHeaders = ()
) -> list[tuple[bytes, bytes]]:
    """A replica's headers as the client gets them: hop-by-hop out, `extra` in place of any of the same names.

    keep_length: the body goes on unchanged.
    """
    lowered = [(name.lower(), value) for name, value in headers]
    dropped = _HOP_BY_HOP
    for name, value in lowered:
        if name == b"connection" and value not in (b"keep-alive", b"close"):
            dropped = dropped.union(_tokens(value))
    if not keep_length:
        dropped = dropped | {b"content-length"}
    if extra:
        dropped = dropped.union(name for name, _ in extra)
    kept = [h for h in lowered if h[0] not in dropped]
    kept += extra
    return kept


def header(headers: RawHeaders, name: bytes) -> bytes:
    """The first value under `name` (lower case), or b""."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return b""


def _tokens(value: bytes) -> Iterable[bytes]:
    return (token.strip().lower() for token in value.split(b","))
