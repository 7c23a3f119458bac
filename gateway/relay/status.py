"""First lines of answers, and whole answers where the application gave none."""

import json
from collections.abc import Mapping
from http import HTTPStatus

STATUS_LINES: Mapping[int, bytes] = {status: f"HTTP/1.1 {status} {status.phrase}".encode() for status in HTTPStatus}


def whole_answer(status: int, message: str, type: str, code: str) -> bytes:
    """An error in OpenAI's form, with which its connection ends."""
    body = json.dumps({"error": {"message": message, "type": type, "param": None, "code": code}}).encode()
    head = b"%b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return head % (STATUS_LINES[status], len(body)) + body


FAILED = whole_answer(500, "The gateway failed.", "api_error", "internal_error")
