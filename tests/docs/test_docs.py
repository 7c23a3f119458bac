"""What the documents say is so."""

import re
import runpy
import shlex
from pathlib import Path
from random import Random

import pytest
from documents import blocks
from endings import candidate

from gateway.__main__ import all_commands, command_line
from gateway.api import refusal
from gateway.api.paths import is_engines
from gateway.application import running
from gateway.config import Config
from gateway.prompt.result import Reason

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page: Path) -> list[str]:
    joined = (block.replace("\\\n", " ") for block in blocks(page))
    lines = (line.strip().removeprefix(".venv/bin/") for block in joined for line in block.splitlines())
    return [line.split(" #")[0] for line in lines if line.startswith("kvgate ")]


def test_the_page_of_settings_is_what_the_settings_say() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "reference.py"))
    assert script["PAGE"].read_text() == script["page"](), "run: python docs/reference.py"


def test_the_pages_of_metrics_and_alerts_are_what_readme_dashboards_and_rules_say() -> None:
    for path, text in runpy.run_path(str(ROOT / "docs" / "monitoring.py"))["pages"]().items():
        assert path.read_text() == text, "run: python docs/monitoring.py"


async def test_every_path_of_operators_is_in_the_page_of_paths() -> None:
    config = Config.model_validate({"listen": {"admin_port": 9090}})
    text = (ROOT / "docs" / "api.md").read_text().partition("## For operators")[2]
    async with running(config) as gateway:
        served = {path.partition("/{")[0] for path in gateway.admin.openapi()["paths"]}
    assert len(served) >= 10
    assert {path for path in served if not re.search(rf"[` ]{path}[`/?]", text)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_it_is_one(page: Path) -> None:
    parser = command_line(all_commands())
    for line in commands(page):
        parser.parse_args(shlex.split(line)[1:])


def test_there_are_commands_to_look_at() -> None:
    assert sum(len(commands(page)) for page in PAGES) >= 4


def test_every_path_that_curl_is_shown_with_exists() -> None:
    admin = (ROOT / "gateway" / "api" / "admin.py").read_text()
    shown = [
        path
        for page in PAGES
        for path in re.findall(r"curl .*?(?:localhost|127\.0\.0\.1):\d+(/[\w/.-]+)", page.read_text())
    ]
    assert shown
    assert [path for path in shown if not is_engines(path) and f'"{path}"' not in admin] == []


def test_the_policy_of_the_tutorial_chooses() -> None:
    (code,) = [block for block in blocks(ROOT / "docs" / "adding-a-policy.md") if "class ShortestQueue" in block][:1]
    names: dict[str, type] = {}
    exec(code, names)
    policy = names["ShortestQueue"](Random(1))
    busy, free = candidate("busy"), candidate("free")
    busy = busy._replace(prediction=busy.prediction._replace(queue=0.5))
    assert policy.choose([busy, free]).candidate == free
    assert "0.0 ms in front" in policy.choose([busy, free]).reason


def test_the_table_of_statuses_has_those_that_are_given() -> None:
    """Of the README, beside the one where exceptions become answers."""
    rows = re.compile(r"^\| (\d{3}(?:, \d{3})*) \|", re.M)
    told, given = (
        {status for row in rows.findall(text) for status in row.split(", ")}
        for text in ((ROOT / "README.md").read_text(), refusal.__doc__ or "")
    )
    assert told == given
    assert len(given) > 8


def test_every_reason_to_leave_a_request_unscored_is_in_the_readme() -> None:
    section = (ROOT / "README.md").read_text().partition("## Prompts")[2].partition("\n## ")[0]
    told = {reason for row in re.findall(r"^\| (`.*?) \|", section, re.M) for reason in re.findall("`(.*?)`", row)}
    assert told == {reason.value for reason in Reason}


async def test_every_metric_of_a_running_gateway_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    config = Config.model_validate({"shadow_policy": "session"})
    async with running(config) as gateway:
        names = {family.name for family in gateway.metrics.registry.collect() if family.name.startswith("kvgate_")}
    assert len(names) > 40
    assert {name for name in names if f"`{name}`" not in text and f"`{name}_total`" not in text} == set()
