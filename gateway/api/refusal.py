"""Exceptions -> statuses and OpenAI's error body: the one table.

| status | when |
|---|---|
| 400 | the request can't be understood |
| 401 | no API key, or one that is not known |
| 403 | the API key may not use the model |
| 404 | no replica serves the model, or no such path |
| 413 | the body is over the limit |
| 415 | the body is compressed otherwise than by gzip |
| 429 | a rate limit is reached or the queue is full; with Retry-After |
| 502 | the chosen replicas could not be reached, or broke off before their answer began |
| 503 | no replica may take the request now, or those tried said so; the gateway stops; with Retry-After |
| 504 | the replica did not answer in time |
"""

import json
from math import ceil
from typing import NamedTuple

from gateway.errors import (
    AdmissionRefused,
    BadRequest,
    BodyTooLarge,
    Forbidden,
    GatewayStopped,
    Unauthorized,
    UnknownPath,
    UnsupportedEncoding,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from routing.errors import NoReplicaAvailable, UnknownModel

RETRY_AFTER = 5
"""Seconds after which a client may ask again when nobody could take its request."""


class Answer(NamedTuple):
    """An answer that the gateway gives itself."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]


class _Row(NamedTuple):
    status: int
    type: str
    code: str | None
    text: str | None
    """what the client reads; the exception's own words where None"""


_TABLE: dict[type[Exception], _Row] = {
    BadRequest: _Row(400, "invalid_request_error", None, None),
    Unauthorized: _Row(401, "invalid_request_error", "invalid_api_key", None),
    Forbidden: _Row(403, "invalid_request_error", "model_not_allowed", None),
    AdmissionRefused: _Row(429, "requests", "rate_limit_exceeded", None),
    UnknownModel: _Row(404, "invalid_request_error", "model_not_found", None),
    UnknownPath: _Row(404, "invalid_request_error", "unknown_url", None),
    BodyTooLarge: _Row(413, "invalid_request_error", "body_too_large", None),
    UnsupportedEncoding: _Row(415, "invalid_request_error", "unsupported_encoding", None),
    UpstreamUnreachable: _Row(502, "api_error", "replica_unreachable", "The replica could not be reached."),
    UpstreamBroken: _Row(502, "api_error", "replica_failed", "The replica failed before it answered."),
    UpstreamTimeout: _Row(504, "api_error", "replica_timeout", "The replica did not answer in time."),
    NoReplicaAvailable: _Row(503, "api_error", "no_replica", None),
    GatewayStopped: _Row(503, "api_error", "gateway_stopped", "The gateway stops."),
}
_UNFORESEEN = _Row(500, "api_error", "internal_error", "The gateway failed.")


def refusal(exc: Exception) -> Answer:
    """The answer to give for an exception; 500 for one that is not in the table."""
    if isinstance(exc, UpstreamBusy):
        return _of_engine(exc)
    row = next((_TABLE[kind] for kind in type(exc).__mro__ if kind in _TABLE), _UNFORESEEN)
    if isinstance(exc, AdmissionRefused):
        answer = error_answer(row.status, str(exc), type=_limit(exc), code=row.code)
        answer.headers.append((b"retry-after", b"%d" % max(1, ceil(exc.retry_after))))
        return answer
    param = "model" if isinstance(exc, UnknownModel) else getattr(exc, "param", None)
    return error_answer(row.status, row.text or str(exc), type=row.type, code=row.code, param=param)


def _limit(exc: AdmissionRefused) -> str:
    """As OpenAI names them: a limit on requests or one on tokens."""
    return "tokens" if exc.reason == "tokens" else "requests"


def _of_engine(busy: UpstreamBusy) -> Answer:
    """The answer of the last replica that takes nothing now, with a Retry-After if it gave none."""
    headers = [(name.lower(), value) for name, value in busy.headers]
    if all(name != b"retry-after" for name, _ in headers):
        headers.append((b"retry-after", str(RETRY_AFTER).encode()))
    return Answer(503, busy.body, [*headers, (b"content-length", str(len(busy.body)).encode())])


def error_answer(
    status: int, message: str, *, type: str = "invalid_request_error", code: str | None = None, param: str | None = None
) -> Answer:
    """OpenAI's error body."""
    answer = json_answer(status, {"error": {"message": message, "type": type, "param": param, "code": code}})
    if status == 401:
        answer.headers.append((b"www-authenticate", b"Bearer"))
    if status == 503:
        answer.headers.append((b"retry-after", str(RETRY_AFTER).encode()))
    return answer


def json_answer(status: int, value: object) -> Answer:
    """A value as JSON."""
    body = json.dumps(value).encode()
    return Answer(status, body, [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())])
