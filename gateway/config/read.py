"""YAML text -> `Config`. Nonsense is refused with the line and the key."""

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError

from gateway.config.settings import Config


class ConfigError(Exception):
    """The configuration can't be used; the message says where and why."""


def load(path: Path) -> Config:
    """Read a YAML file. Raises ConfigError, with line and key, for what can't be read or used."""
    try:
        text = path.read_text()
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    return parse(text, str(path))


def parse(text: str, name: str = "config") -> Config:
    """Read YAML text; `name` stands for the file in messages. Raises ConfigError."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"{name}:{line}: {exc.problem}") from exc
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise ConfigError(f"{name}:1: a mapping of settings is expected")
    try:
        return Config.model_validate(values)
    except ValidationError as exc:
        raise ConfigError("\n".join(_explain(name, root, error) for error in exc.errors())) from exc


def _explain(name: str, root: yaml.Node | None, error: Mapping[str, object]) -> str:
    path = error["loc"]
    assert isinstance(path, tuple)
    line, keys = _find(root, path)
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{name}:{line}: {'.'.join(keys) or 'settings'}: {message}"


def _find(node: yaml.Node | None, path: tuple[str | int, ...]) -> tuple[int, list[str]]:
    """The line of the deepest part of `path` that is in the file, and the path's keys as far as they are keys of it."""
    line = node.start_mark.line + 1 if node else 1
    keys: list[str] = []
    for step in path:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    line, node = key.start_mark.line + 1, value
                    break
            else:
                keys.append(str(step))
                break
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break  # a step of the schema, such as the name of a union's member
        keys.append(str(step))
    return line, keys
