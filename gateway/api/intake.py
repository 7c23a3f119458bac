"""What is read of a request's body, whatever form it comes in."""

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from gateway.api.multipart import FormModel
from gateway.api.parse import Body, in_utf8, parse
from gateway.config import Limits
from gateway.errors import BadRequest, BodyTooLarge, UnsupportedEncoding
from gateway.relay.client import Client
from gateway.relay.splice import set_member
from gateway.relay.trace import Trace
from gateway.relay.upload import Upload

_GZIP = 16 + zlib.MAX_WBITS
"""zlib's: with gzip's header and checksum"""
_MEMBERS = 1024
"""Of a body in gzip; each takes longer to begin than thousands of bytes to decode."""
_SLICE = 65_536
"""Of a form that is read at once, or of a text that is decoded: what may keep the event loop."""


@dataclass(slots=True)
class Asked:
    """A request of which the head has been read. model: which one is meant, tenant: whose it is, once that is known."""

    client: Client
    id: str
    arrived: float
    model: str | None = None
    tenant: str = ""
    trace: Trace | None = None

    def end(self, status: int | None) -> None:
        """It ended without a replica's answer. status: what the client got, None where it had gone."""
        if self.trace is not None:
            self.trace.end(status)


class Intake(msgspec.Struct, frozen=True):
    """A request's body: the fields that count, the text that they are in, the bytes that came."""

    body: Body
    plain: bytes
    raw: bytes
    form: FormModel | None = None
    """where it is a multipart form, not JSON"""
    more: bool = False
    """of the form, only the beginning has been read"""
    took: float = 0.0
    """seconds until as much of it had come"""

    @property
    def encoded(self) -> bool:
        """It came compressed or not in UTF-8, and goes on so."""
        return self.plain is not self.raw

    def renamed(self, model: str) -> bytes:
        """The text with another model's name. Raises BadRequest."""
        if self.form is not None:
            return self.form.renamed(self.plain, model)
        return set_member(self.plain, "model", msgspec.json.encode(model))

    def expect(self, model: str | None) -> None:
        """What the rest of the form has to name, if it names a model. Raises BadRequest where nothing is known."""
        if model is None:
            raise BadRequest("`model` must come before the file.", "model")
        if self.form is not None:
            self.form.name = model

    def upload(self, client: Client, begun: bytes, limit: int | None) -> Upload | None:
        """What goes to the replica where there is more to come. begun: what was read, as `sent` gives it."""
        if self.form is None or not self.more:
            return None
        stated = client.fields.get(b"content-length")
        length = None if stated is None else int(stated) + len(begun) - len(self.raw)
        return Upload(client, begun, length, self.form.feed, limit)

    def sent(self, changed: bytes) -> bytes:
        """What goes to the replica. changed: the text with what the gateway changed in it. Raises BadRequest."""
        if not self.encoded:
            return changed
        if changed is not self.plain:
            raise BadRequest("This request has to be sent uncompressed, in UTF-8: the gateway must change its body.")
        return self.raw


async def take_in(
    client: Client, limits: Limits, now: Callable[[], float], *, forms: bool, tells: bool = True
) -> Intake:
    """Read what is to be known of a request: all of it, but of a form only the beginning, where the path takes forms.

    now: seconds of a monotonic clock. tells: whether there is anything in the body, as the path goes.
    Raises BadRequest, ClientGone.
    """
    asked = now()
    if not tells:
        raw = await client.body(limits.body_bytes)
        return Intake(Body(), raw, raw, took=now() - asked)
    content_type = client.fields.get(b"content-type", b"")
    encoding = client.fields.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"identity", b"gzip"):
        raise UnsupportedEncoding("The request body may be compressed by gzip only.")
    form = FormModel(content_type) if forms and content_type[:10].lower() == b"multipart/" else None
    if form is not None and encoding == b"identity":
        begun, more = await _begin_form(client, form, limits)
        return Intake(Body(model=form.name), begun, begun, form, more, now() - asked)
    raw = await client.body(limits.body_bytes)
    took = now() - asked
    plain = await _decoded(raw, limits.body_bytes) if encoding == b"gzip" else raw
    if form is None:
        plain = in_utf8(plain)
        return Intake(parse(plain), plain, raw, took=took)
    for at in range(0, len(plain), _SLICE):
        form.feed(plain[at : at + _SLICE])
        await asyncio.sleep(0)
    return Intake(Body(model=form.name), plain, raw, form, took=took)


async def _begin_form(client: Client, form: FormModel, limits: Limits) -> tuple[bytes, bool]:
    """Returns what was read, and whether more is to come."""
    stated = int(client.fields.get(b"content-length", b"0"))
    if limits.upload_bytes is not None and stated > limits.upload_bytes:
        raise BodyTooLarge(f"The request body has {stated} bytes, the limit is {limits.upload_bytes}.")
    parts, size = [], 0
    while size <= limits.upload_held and (part := await client.part()):
        form.feed(part)
        parts.append(part)
        size += len(part)
    return b"".join(parts), size > limits.upload_held


async def _decoded(raw: bytes, limit: int) -> bytes:
    """All members of a gzip file, one behind the other (RFC 1952 2.2)."""
    decoder, members = zlib.decompressobj(_GZIP), 1
    parts, size, at, left = [], 0, 0, b""
    while left or at < len(raw):
        if not left:
            left, at = raw[at : at + _SLICE], at + _SLICE
        if decoder.eof:
            decoder, members = zlib.decompressobj(_GZIP), members + 1
        if members > _MEMBERS:
            raise BadRequest(f"The request body is in more than {_MEMBERS} gzip members.")
        try:
            part = decoder.decompress(left, _SLICE)
        except zlib.error as exc:
            raise BadRequest("The request body is not gzip, as its Content-Encoding says.") from exc
        size += len(part)
        if size > limit:
            raise BodyTooLarge(f"The request body has more than the limit of {limit} bytes when it is decoded.")
        parts.append(part)
        left = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
        await asyncio.sleep(0)
    if not decoder.eof:
        raise BadRequest("The request body ends within a gzip member.")
    return b"".join(parts)
