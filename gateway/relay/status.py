"""First lines of answers, and the whole answer where the application gave none."""

from collections.abc import Mapping
from http import HTTPStatus

STATUS_LINES: Mapping[int, bytes] = {status: f"HTTP/1.1 {status} {status.phrase}".encode() for status in HTTPStatus}
_BODY = b'{"error":{"message":"The gateway failed.","type":"api_error","param":null,"code":"internal_error"}}'
FAILED = b"%b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (
    STATUS_LINES[500],
    len(_BODY),
    _BODY,
)
