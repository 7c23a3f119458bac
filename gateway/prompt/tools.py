"""A request's tools -> what the template sees: vLLM keeps the fields of its own model, in that model's order."""

from collections.abc import Mapping
from typing import Any

from gateway.prompt.result import CannotScore, Reason


def tool_definitions(tools: object) -> list[dict[str, Any]] | None:
    """The `tools` of a chat request as the template gets them.

    Unknown keys are dropped, a missing description or parameters become null, `strict` and `defer_loading` appear only
    where they are set.
    Raises CannotScore.
    """
    if tools is None:
        return None
    if not isinstance(tools, list):
        raise CannotScore(Reason.MALFORMED)
    return [_definition(tool) for tool in tools]


def _definition(tool: object) -> dict[str, Any]:
    if not isinstance(tool, Mapping) or not isinstance(function := tool.get("function"), Mapping):
        raise CannotScore(Reason.MALFORMED)
    if tool.get("type", "function") != "function":
        raise CannotScore(Reason.REFUSED)
    name, description, parameters = (function.get(field) for field in ("name", "description", "parameters"))
    defer = tool.get("defer_loading")
    if (
        not isinstance(name, str)
        or not isinstance(description, str | None)
        or not isinstance(parameters, Mapping | None)
        or not isinstance(defer, bool | None)
    ):
        raise CannotScore(Reason.MALFORMED)
    dumped: dict[str, Any] = {"name": name, "description": description, "parameters": parameters}
    for field, inherited in (("strict", None), ("defer_loading", defer)):
        value = function.get(field)
        value = inherited if value is None else value
        if not isinstance(value, bool | None):
            raise CannotScore(Reason.MALFORMED)
        if value is not None:
            dumped[field] = value
    definition: dict[str, Any] = {"type": "function", "function": dumped}
    return definition if defer is None else definition | {"defer_loading": defer}
