"""The few fields of a request body that the gateway acts on; the bytes themselves are what is sent on."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic import TypeAdapter, ValidationError

from gateway.errors import BadRequest

_SWITCH = TypeAdapter(bool)


class Body(msgspec.Struct, frozen=True):
    """What is read of every JSON body. Other fields are not looked at."""

    model: str | None = None
    stream: Any = None
    stream_options: Any = None
    kv_transfer_params: Any = None
    previous_response_id: str | None = None
    n: Any = None
    session_id: Any = None
    prompt_cache_key: Any = None
    user: Any = None
    metadata: Any = None
    cache_salt: Any = None

    @property
    def streams(self) -> bool:
        """Whether the answer is asked for as a stream."""
        return _switched(self.stream) is True

    @property
    def lacks_usage(self) -> bool:
        """Whether the answer is a stream that would not report its usage. False for what the engine refuses."""
        options = {} if self.stream_options is None else self.stream_options
        return self.streams and isinstance(options, dict) and _switched(options.get("include_usage")) is False


def _switched(value: object) -> bool | None:
    """A switch as the engines' pydantic takes it: 1, "true" and "on" are on, null is off; None for what it refuses."""
    if value is None or isinstance(value, bool):
        return bool(value)
    try:
        return _SWITCH.validate_python(value)
    except ValidationError:
        return None


SESSION_HEADERS = (b"x-session-id", b"x-conversation-id", b"x-user-id", b"session_id")
"""What clients and routers call a session, the narrowest first."""


def session(fields: Mapping[bytes, bytes], body: Body) -> str | None:
    """The request's own name for its conversation, or for who asks; None where it gives none.

    fields: the request's headers, in lower case. The body's fields are OpenAI's (`prompt_cache_key`, `user`), those of
    routers (`session_id`) and Anthropic's (`metadata.user_id`).
    """
    for header in SESSION_HEADERS:
        if value := fields.get(header):
            return value.decode("latin-1")
    metadata = body.metadata.get("user_id") if isinstance(body.metadata, dict) else None
    for name in (body.session_id, body.prompt_cache_key, body.user, metadata):
        if name and isinstance(name, str):
            return name
    return None


_decoder = msgspec.json.Decoder(Body)
_document_decoder = msgspec.json.Decoder()


def parse(raw: bytes) -> Body:
    """Read the fields. Raises BadRequest, with the position, for what is not a JSON object."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _checked(document(raw))


def document(raw: bytes) -> Mapping[str, object]:
    """The whole body as Python values, as `json.loads` gives them. Raises BadRequest as `parse` does."""
    try:
        value = _document_decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        value = _lenient(raw)
    if not isinstance(value, dict):
        raise BadRequest("The request body must be a JSON object.")
    return value


def _lenient(raw: bytes) -> object:
    """As the engines read it, who take NaN and lone surrogates."""
    try:
        return json.loads(raw)
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno} column {exc.colno} (char {exc.pos})"
        raise BadRequest(f"The request body is not valid JSON: {exc.msg} at {where}.") from exc
    except UnicodeDecodeError as exc:
        raise BadRequest(f"The request body is not valid UTF-8: {exc.reason} at byte {exc.start}.") from exc
    except RecursionError as exc:
        raise BadRequest("The request body is nested too deeply.") from exc
    except ValueError as exc:  # Python's own limit
        raise BadRequest("The request body has a number of too many digits.") from exc


def in_utf8(raw: bytes) -> bytes:
    """A body's text in UTF-8, which it is as a rule: engines take JSON in UTF-16, in UTF-32 and behind a mark too."""
    encoding = json.detect_encoding(raw)
    if encoding == "utf-8":
        return raw
    try:
        return raw.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw


def _checked(values: Mapping[str, object]) -> Body:
    model = values.get("model")
    if model is not None and not isinstance(model, str):
        raise BadRequest(f"`model` must be a string, not {type(model).__name__}.", param="model")
    previous = values.get("previous_response_id")
    return Body(
        model,
        values.get("stream"),
        values.get("stream_options"),
        values.get("kv_transfer_params"),
        previous if isinstance(previous, str) else None,
        *(values.get(field) for field in ("n", "session_id", "prompt_cache_key", "user", "metadata", "cache_salt")),
    )
