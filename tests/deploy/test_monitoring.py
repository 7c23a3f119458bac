"""Dashboards and alerts speak of metrics that exist, and every alert has its page."""

import asyncio
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from dashboards import DASHBOARDS, TARGET, dashboard, text
from prometheus_client.registry import Collector

from gateway.application import running
from gateway.config import Config

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "helm" / "kvgate" / "files" / "alerts.yaml"
RUNBOOK = ROOT / "deploy" / "grafana" / "runbook"
CURVINE = {
    "available", "capacity", "inode_file_num", "journal_queue_len", "operation_duration_bucket",
    "operation_duration_count", "read_bytes", "read_time_us", "storage_failed", "store_total_disks", "worker_num",
    "write_bytes",
}  # fmt: skip
NODE = {"node_network_transmit_bytes_total", "node_network_receive_bytes_total"}
NO_METRIC = {
    "sum", "max", "min", "avg", "count", "by", "rate", "increase", "histogram_quantile", "ignoring", "group_left",
    "time", "le",
}  # fmt: skip


def metrics_of(query: str) -> set[str]:
    """The names of series in a query: the words that are neither labels nor PromQL's own."""
    query = re.sub(r"\b(by|ignoring|on|group_left)\s*\([^)]*\)", " ", query)
    query = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"", " ", query)
    return {word for word in re.findall(r"[a-z_][a-z0-9_]*", query) if word not in NO_METRIC}


@cache
def existing() -> frozenset[str]:
    """What a gateway with all its parts has in its registry, under the names of its samples."""

    async def registered(folder: Path) -> set[str]:
        settings = {"l2": {"path": str(folder)}, "replicas": []}
        async with running(Config.model_validate(settings)) as gateway:
            return set(names(gateway.metrics.registry))

    found = asyncio.run(registered(ROOT))
    # Those of a shared index are only there with one, those of connections with a server.
    for module in (ROOT / "gateway").rglob("*.py"):
        found |= set(re.findall(r'"(kvgate_[a-z0-9_]+[a-z0-9])"', module.read_text()))
    return frozenset(found | {f"{name}_total" for name in found} | {f"{name}_bucket" for name in found})


def names(registry: Collector) -> Iterator[str]:
    for family in registry.collect():
        yield family.name
        yield from (sample.name for sample in family.samples)


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_a_dashboard_shows_metrics_that_exist(uid: str) -> None:
    queries = [target["expr"] for panel in dashboard(uid)["panels"] for target in panel.get("targets", ())]
    assert queries
    for query in queries:
        promql_parser.parse(query.replace("$__rate_interval", "5m"))
        unknown = metrics_of(query) - existing() - CURVINE - NODE
        assert not unknown, query


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_a_dashboard_is_the_one_that_its_code_makes(uid: str) -> None:
    assert (TARGET / f"{uid}.json").read_text() == text(uid), "python deploy/grafana/dashboards.py"
    ids = [panel["id"] for panel in json.loads(text(uid))["panels"]]
    assert len(set(ids)) == len(ids)


def test_every_metric_is_on_a_dashboard() -> None:
    shown = {
        re.sub("_bucket$", "", name)
        for uid in DASHBOARDS
        for panel in dashboard(uid)["panels"]
        for target in panel.get("targets", ())
        for name in metrics_of(target["expr"])
    }
    table = set(re.findall(r"^\|[^|]*`(kvgate_\w+)`", (ROOT / "README.md").read_text(), re.M))
    assert len(table) > 50
    assert table - shown == {"kvgate_kv_last_event_timestamp_seconds"}  # its age is shown


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_is_about_metrics_that_exist_and_has_a_page(rule: dict[str, Any]) -> None:
    assert metrics_of(rule["expr"]), rule["expr"]
    assert not metrics_of(rule["expr"]) - existing()
    promql_parser.parse(rule["expr"])
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert rule["annotations"]["runbook_url"] == f"RUNBOOK_URL/{rule['alert']}.md"
    page = (RUNBOOK / f"{rule['alert']}.md").read_text()
    assert page.startswith(f"# {rule['alert']}\n")
    assert "1. " in page


def test_every_page_is_of_an_alert() -> None:
    assert {page.stem for page in RUNBOOK.glob("*.md")} == {rule["alert"] for rule in rules()}


def test_metrics_that_a_page_or_the_readme_names_exist() -> None:
    texts = [page.read_text() for page in RUNBOOK.glob("*.md")]
    named = {name for text in texts for name in re.findall(r"kvgate_[a-z0-9_]+", text)}
    assert named
    assert not named - existing()
