"""Reading single fields of a request: the engine's defaults, and a refusal of what the engine would convert."""

from collections.abc import Mapping
from typing import Any

from gateway.prompt.result import CannotScore, Reason


def flag(body: Mapping[str, Any], name: str, default: bool) -> bool:
    """A boolean field. Raises CannotScore for anything else, null included."""
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise CannotScore(Reason.MALFORMED)
    return value


def whole(body: Mapping[str, Any], name: str) -> int | None:
    """An integer field or null. Raises CannotScore for anything else."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise CannotScore(Reason.MALFORMED)
    return value


def text(body: Mapping[str, Any], name: str) -> str | None:
    """A string field or null. Raises CannotScore for anything else."""
    value = body.get(name)
    if not isinstance(value, str | None):
        raise CannotScore(Reason.MALFORMED)
    return value


def mapping(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object field, empty for null. Raises CannotScore for anything else."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise CannotScore(Reason.MALFORMED)
    return value


def salt(body: Mapping[str, Any]) -> str | None:
    """`cache_salt`. Raises CannotScore for an empty one, which the engine refuses, and for one without a UTF-8 form."""
    value = text(body, "cache_salt")
    if value == "":
        raise CannotScore(Reason.REFUSED)
    try:
        (value or "").encode()
    except UnicodeEncodeError as exc:
        raise CannotScore(Reason.UNENCODABLE) from exc
    return value


def override(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` over `defaults`; null and "auto" don't count as values."""
    return {**defaults, **{name: value for name, value in values.items() if not _is_unset(value)}}


def _is_unset(value: object) -> bool:
    return value is None or value == "auto"
