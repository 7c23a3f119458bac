"""Writes `metrics.md` and `alerts.md` from the README's table, the dashboards and the alert rules, so that none differ.

python docs/monitoring.py
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parent
ROOT = DOCS.parent
CHART = ROOT / "deploy" / "helm" / "kvgate" / "files"
RUNBOOK = ROOT / "deploy" / "grafana" / "runbook"

_METRICS = """# Metrics

<!-- Written by docs/monitoring.py. -->

At `/metrics` of the operators' side, in Prometheus' form; histograms get `_bucket`, `_count`, and `_sum` where
no value is negative. Each gateway, and each worker, tells its own: add counters up over all of them, and take the
greatest of what all of them see of an engine. Series of a replica end when it leaves.

| metric | labels | meaning | panel | alert |
|---|---|---|---|---|
"""
_ALERTS = """# Alerts

<!-- Written by docs/monitoring.py. -->

`monitoring.rules: true` in the chart's values installs them; `deploy/helm/kvgate/files/alerts.yaml` is a rule file of
Prometheus as it is. Each links to its page in `deploy/grafana/runbook/`, which is what stands here.
"""


def metrics() -> str:
    """The page of metrics."""
    panels, alerts = _panels(), _rules()
    rows = []
    for names, labels, meaning in _table():
        shown = [title for title, queries in panels if any(_uses(query, names) for query in queries)]
        alarmed = [rule["alert"] for rule in alerts if _uses(rule["expr"], names)]
        links = ", ".join(f"[{alert}](alerts.md#{alert.lower()})" for alert in alarmed)
        head = ", ".join(f"`{name}`" for name in names)
        rows.append(f"| {head} | {labels} | {meaning} | {'; '.join(dict.fromkeys(shown))} | {links} |\n")
    return _METRICS + "".join(rows)


def alerts() -> str:
    """The page of alerts: rule and runbook of each."""
    parts = [_ALERTS]
    for rule in _rules():
        name, lasting = rule["alert"], f", for {rule['for']}" if "for" in rule else ""
        body = (RUNBOOK / f"{name}.md").read_text().partition("\n")[2].strip()
        rule_text = rule["expr"].strip()
        parts.append(
            f"\n## {name}\n\n{rule['labels']['severity']}{lasting}:\n\n```promql\n{rule_text}\n```\n\n{body}\n"
        )
    return "".join(parts)


def pages() -> Mapping[Path, str]:
    """Both, by file."""
    return {DOCS / "metrics.md": metrics(), DOCS / "alerts.md": alerts()}


def _table() -> Iterator[tuple[Sequence[str], str, str]]:
    """The README's rows of metrics: names, labels, meaning."""
    for row in re.findall(r"^\| (`kvgate_.*) \|$", (ROOT / "README.md").read_text(), re.M):
        names, labels, meaning = re.split(r"\s*\|\s*", row, maxsplit=2)
        yield re.findall(r"kvgate_\w+", names), labels, meaning


def _rules() -> Sequence[Mapping[str, Any]]:
    groups = yaml.safe_load((CHART / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _panels() -> Sequence[tuple[str, Sequence[str]]]:
    """Titles of dashboards' panels, each with its queries."""
    found = []
    for file in sorted((CHART / "dashboards").glob("*.json")):
        dashboard = json.loads(file.read_text())
        for panel in dashboard["panels"]:
            queries = [target["expr"] for target in panel.get("targets", ())]
            found.append((f"{dashboard['title'].removeprefix('kvgate: ')}: {panel['title']}", queries))
    return found


def _uses(query: str, names: Sequence[str]) -> bool:
    return any(re.search(rf"\b{name}(_bucket)?\b", query) for name in names)


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
