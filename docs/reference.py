"""Writes `configuration.md` from the settings themselves, so that the two can't differ.

python docs/reference.py
"""

import ast
import inspect
import types
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gateway.config import Config

PAGE = Path(__file__).parent / "configuration.md"

_HEAD = """# Configuration

<!-- Written by docs/reference.py from gateway/config/. -->

`kvgate serve --config FILE`, in YAML. Everything has a default but the replicas. Durations are seconds unless a name
says `_ms`. A key that is not known, and a value that makes no sense, are refused with their line.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for title, text, section in _sections("", Config):
        parts.append(f"\n## {title}\n\n{text}\n\n| key | value | default | meaning |\n|---|---|---|---|\n")
        meanings = _meanings(section)
        parts += [
            f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {_one_line(meanings.get(name))} |\n"
            for name, field in section.model_fields.items()
        ]
    return "".join(parts)


def _sections(name: str, section: type[BaseModel]) -> Iterator[tuple[str, str, type[BaseModel]]]:
    yield name or "Top level", _one_line(section.__doc__), section
    for key, field in section.model_fields.items():
        for inner in _models(field.annotation):
            yield from _sections(f"{name}.{key}".lstrip("."), inner)


def _meanings(section: type[BaseModel]) -> Mapping[str, str]:
    """The text under each setting; read here, as pydantic would read it at every start of a gateway."""
    meanings: dict[str, str] = {}
    for part in reversed(section.__mro__[: section.__mro__.index(BaseModel)]):
        (definition,) = ast.parse(inspect.getsource(part)).body
        assert isinstance(definition, ast.ClassDef)
        for setting, text in pairwise(definition.body):
            match setting, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning))):
                    meanings[name] = meaning
    return meanings


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections that a type speaks of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in arguments if part is not types.NoneType)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping to {_type(arguments[1])}"
    if origin in (tuple, list, frozenset):
        return f"list of {_type(arguments[0])}"
    if origin is not None:
        return _type(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    names = {bool: "true or false", int: "integer", float: "number", str: "text", Path: "path", object: "anything"}
    return names.get(annotation, getattr(annotation, "__name__", "").lower())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined or isinstance(value, BaseModel):
        return ""
    if value is None or value in ((), {}):
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
