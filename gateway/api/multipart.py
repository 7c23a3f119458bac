"""The one field of a multipart form that the gateway acts on; the bytes themselves are what is sent on."""

import codecs

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.errors import BadRequest

MODEL_BYTES = 1024
"""Limit of a model's name."""


class FormModel:
    """The field `model` of a form, found as the form comes, by the parser that the engines themselves use.

    name: what it says; None while no such field has come to its end. Set from outside, it is what one that comes later
    has to say.
    """

    def __init__(self, content_type: bytes) -> None:
        """Raises BadRequest where the type names no boundary that can be used."""
        _, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if not boundary:
            raise BadRequest("The form's boundary is missing in Content-Type.")
        self.name: str | None = None
        self._at = 0
        self._fed = 0
        self._count = 0
        self._charset = _charset(options.get(b"charset", b"utf-8"))
        self._header: bytes = b""
        self._value: bytes = b""
        self._disposition: bytes = b""
        self._is_model = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_headers,
                    "on_part_data": self._on_data,
                    "on_part_end": self._end_part,
                },
            )
        except FormParserError as exc:
            raise BadRequest(f"The form can't be read: {exc}.") from exc

    def feed(self, data: bytes) -> None:
        """Look at a further part. Raises BadRequest for what is no form, and for two models that differ."""
        try:
            self._parser.write(data)
        except FormParserError as exc:
            raise BadRequest(f"The form can't be read: {exc}.") from exc
        self._fed += len(data)

    def renamed(self, begun: bytes, name: str) -> bytes:
        """The form as far as it has come, with another name in its one field `model`. Raises BadRequest."""
        own = (self.name or "").encode(self._charset, "replace")
        behind = self._at + len(own)
        if begun[self._at : behind] != own or self._count != 1:
            raise BadRequest("`model` is an alias, and can't be replaced in this form.", "model")
        return begun[: self._at] + name.encode(self._charset, "replace") + begun[behind:]

    def _begin_part(self) -> None:
        self._header = self._value = self._disposition = b""
        self._is_model = False

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._is_model = self._decoded(options.get(b"name", b"")) == "model"

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_model:
            if not self._value:
                self._at = self._fed + start
            self._value += data[start:end]
            if len(self._value) > MODEL_BYTES:
                raise BadRequest("`model` is too long.", "model")

    def _end_part(self) -> None:
        if self._is_model:
            name = self._decoded(self._value)
            if self.name not in (None, name):
                raise BadRequest("`model` must be given once, and before the file.", "model")
            self.name = name
            self._count += 1

    def _decoded(self, data: bytes) -> str:
        """As Starlette, under which the engines run, reads it."""
        try:
            return data.decode(self._charset)
        except (UnicodeError, LookupError):
            return data.decode("latin-1")


def _charset(name: bytes) -> str:
    try:
        return codecs.lookup(name.decode("latin-1")).name
    except LookupError:
        return "latin-1"
