"""Who may import whom, and how long a module may be."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 250
FORBIDDEN = {"routing": {"gateway", "loadtest", "bench"}, "gateway": {"loadtest", "bench"}, "loadtest": {"bench"}}
ROUTING_MAY_USE = {"routing", "xxhash"}
NOT_FOR_ROUTING = {"asyncio", "logging", "socket", "threading", "time", "datetime", "os", "pathlib", "http", "urllib"}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: relative import"
            yield (node.module or "").split(".")[0]


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports_go_one_way(package: str) -> None:
    for module in modules(package):
        assert not FORBIDDEN[package] & set(imported(module)), module


def test_routing_touches_nothing_of_the_world() -> None:
    import sys

    for module in modules("routing"):
        names = set(imported(module))
        assert not names & NOT_FOR_ROUTING, module
        assert names - sys.stdlib_module_names <= ROUTING_MAY_USE, module


@pytest.mark.parametrize("package", ["routing", "gateway", "loadtest", "bench"])
def test_modules_are_short(package: str) -> None:
    long = {
        str(module): lines for module in modules(package) if (lines := len(module.read_text().splitlines())) > LONGEST
    }
    assert not long
