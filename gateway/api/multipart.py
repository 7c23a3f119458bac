"""The one field of a multipart form that the gateway acts on; the bytes themselves are what is sent on."""

import re

from gateway.errors import BadRequest

_BOUNDARY = re.compile(rb'boundary=(?:"([^"\r\n]{1,70})"|([^\s;,"]{1,70}))', re.IGNORECASE)
_NAME = re.compile(rb'^content-disposition:[^\r\n]*;\s*name="?model"?\s*(?:;|\r|$)', re.IGNORECASE | re.MULTILINE)


def multipart_model(content_type: bytes, raw: bytes) -> str | None:
    """The field `model` of a form; None where it has none. Raises BadRequest where it has several that differ."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise BadRequest("The form's boundary is missing in Content-Type.")
    delimiter = b"--" + (boundary[1] or boundary[2])
    models = set()
    for part in raw.split(delimiter)[1:]:
        head, blank, value = part.partition(b"\r\n\r\n")
        if blank and _NAME.search(head):
            models.add(value.removesuffix(b"\r\n"))
    if len(models) > 1:
        raise BadRequest("`model` is given more than once.", "model")
    return models.pop().decode("utf-8", "replace") if models else None
