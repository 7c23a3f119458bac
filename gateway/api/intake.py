"""What is read of a request's body, whatever form it comes in."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gateway.api.multipart import multipart_model
from gateway.api.parse import Body, parse
from gateway.errors import BadRequest, BodyTooLarge, UnsupportedEncoding
from gateway.relay.client import Client

_GZIP = 16 + zlib.MAX_WBITS
"""zlib's: with gzip's header and checksum"""


@dataclass(slots=True)
class Asked:
    """A request of which the head has been read. model: which one is meant, once that is known."""

    client: Client
    id: str
    arrived: float
    model: str | None = None


class Intake(NamedTuple):
    """A request's body: the fields that count, the text that they are in, the bytes that came."""

    body: Body
    plain: bytes
    raw: bytes
    form: bool = False
    """it is a multipart form, not JSON"""

    @property
    def encoded(self) -> bool:
        """It came compressed, and goes on so."""
        return self.plain is not self.raw

    def sent(self, changed: bytes) -> bytes:
        """What goes to the replica. changed: the text with what the gateway changed in it. Raises BadRequest."""
        if not self.encoded:
            return changed
        if changed is not self.plain:
            raise BadRequest("This request has to be sent uncompressed: the gateway must change its body.")
        return self.raw


def take_in(method: str, fields: Mapping[bytes, bytes], raw: bytes, limit: int) -> Intake:
    """Read a body. limit: bytes that it may have when it is decoded. Raises BadRequest."""
    if method == "GET":
        return Intake(Body(), raw, raw)
    content_type = fields.get(b"content-type", b"")
    encoding = fields.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"identity", b"gzip"):
        raise UnsupportedEncoding("The request body may be compressed by gzip only.")
    plain = _decoded(raw, limit) if encoding == b"gzip" else raw
    if content_type[:10].lower() == b"multipart/":
        return Intake(Body(model=multipart_model(content_type, plain)), plain, raw, True)
    return Intake(parse(plain), plain, raw)


def _decoded(raw: bytes, limit: int) -> bytes:
    decoder = zlib.decompressobj(_GZIP)
    try:
        plain = decoder.decompress(raw, limit + 1)
    except zlib.error as exc:
        raise BadRequest("The request body is not gzip, as its Content-Encoding says.") from exc
    if len(plain) > limit:
        raise BodyTooLarge(f"The request body has more than the limit of {limit} bytes when it is decoded.")
    if not decoder.eof or decoder.unused_data:
        raise BadRequest("The request body is not one whole gzip stream.")
    return plain
