"""The Grafana dashboards, as code: `python deploy/grafana/dashboards.py` writes them where the chart takes them from."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

TARGET = Path(__file__).parents[1] / "helm" / "kvgate" / "files" / "dashboards"
_COLUMNS = 3
_HEIGHT = 8


class Panel(NamedTuple):
    """One graph. queries: PromQL and the legend of its lines."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    text: str = ""


class Row(NamedTuple):
    """Panels under one heading."""

    title: str
    panels: Sequence[Panel]


def quantile(share: float, metric: str, by: str) -> str:
    """A quantile of a histogram over all gateways."""
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket{{$gate}}[$__rate_interval])))"


def rate(metric: str, by: str, more: str = "") -> str:
    """Per second, over all gateways."""
    return f"sum by ({by}) (rate({metric}{{$gate{more}}}[$__rate_interval]))"


def seen(metric: str, by: str) -> str:
    """What all gateways see of the same thing: the same, so the most recent is the greatest."""
    return f"max by ({by}) ({metric}{{$gate}})"


OVERVIEW = [
    Row("What clients get", [
        Panel("Requests", "reqps", [(rate("kvgate_requests_total", "outcome, status"), "{{outcome}} {{status}}")]),
        Panel("Time to first token", "s", [
            (quantile(0.5, "kvgate_ttft_seconds", "policy"), "{{policy}} p50"),
            (quantile(0.99, "kvgate_ttft_seconds", "policy"), "{{policy}} p99"),
        ]),
        Panel("Time between tokens", "s", [(quantile(0.5, "kvgate_itl_seconds", "policy"), "{{policy}} p50")]),
        Panel("Duration", "s", [(quantile(0.95, "kvgate_request_duration_seconds", "policy"), "{{policy}} p95")]),
    ]),
    Row("What the caches spare", [
        Panel("Hit ratio", "percentunit", [
            (f"{rate('kvgate_cached_tokens_total', 'model')} / {rate('kvgate_prompt_tokens_total', 'model')}", "{{model}}"),
        ], "Prompt tokens that engines did not prefill, as they counted."),
        Panel("Tokens prefilled", "short", [(rate("kvgate_uncached_tokens_total", "model"), "{{model}}")]),
        Panel("Requests routed without a prefix", "reqps", [(rate("kvgate_unscored_total", "reason"), "{{reason}}")]),
        Panel("Where reuse is lost", "percentunit", [
            (f"{rate('kvgate_prefix_tokens_total', 'stage')} / ignoring (stage) group_left "
             "sum(rate(kvgate_prefix_tokens_total{$gate, stage=\"prompt\"}[$__rate_interval]))", "{{stage}}"),
        ], "Of all prompt tokens: what an earlier prompt had, what some replica held, what the chosen one held, what came of it."),
    ]),
    Row("What another policy would do", [
        Panel("The same choice", "percentunit", [
            ("sum by (shadow) (rate(kvgate_shadow_decisions_total{$gate, choice=\"same\"}[$__rate_interval])) / "
             "sum by (shadow) (rate(kvgate_shadow_decisions_total{$gate}[$__rate_interval]))", "{{shadow}}"),
        ], "Only with `shadow_policy`."),
        Panel("Tokens held where it went, and where the shadow chose", "short", [
            (rate("kvgate_shadow_cached_tokens_total", "by"), "{{by}}"),
        ]),
        Panel("Predicted time to first token, mean", "s", [
            ("sum by (by) (rate(kvgate_shadow_predicted_ttft_seconds_total{$gate}[$__rate_interval])) / ignoring (by) group_left "
             "sum(rate(kvgate_shadow_decisions_total{$gate}[$__rate_interval]))", "{{by}}"),
        ]),
    ]),
    Row("How the fleet is loaded", [
        Panel("Predicted wait", "ms", [
            ("avg by (replica, engine) (kvgate_predicted_queue_milliseconds{$gate})", "{{replica}}/{{engine}}"),
        ]),
        Panel("Saturated engines", "percentunit", [("avg by (model) (kvgate_saturated_share{$gate})", "{{model}}")]),
        Panel("In flight", "short", [("sum by (replica, engine) (kvgate_in_flight{$gate})", "{{replica}}/{{engine}}")]),
    ]),
    Row("The gateway itself", [
        Panel("Time of a decision", "s", [(quantile(0.99, "kvgate_decision_seconds", "policy"), "{{policy}} p99")]),
        Panel("Time that it adds", "s", [(quantile(0.99, "kvgate_overhead_seconds", "policy"), "{{policy}} p99")]),
        Panel("Connections", "short", [
            ("sum(kvgate_connections{$gate})", "clients"),
            ("sum by (state) (kvgate_upstream_connections{$gate})", "replicas: {{state}}"),
            (rate("kvgate_connections_refused_total", "reason"), "refused: {{reason}}/s"),
        ]),
        Panel("Retries", "reqps", [
            (rate("kvgate_retries_total", "replica"), "after {{replica}}"),
            (rate("kvgate_retries_refused_total", "reason"), "refused: {{reason}}"),
        ]),
        Panel("Discovery", "short", [
            (seen("kvgate_discovered_replicas", "source, state"), "{{source}} {{state}}"),
            (rate("kvgate_discovery_faults_total", "source, kind"), "{{source}} {{kind}}/s"),
        ]),
        Panel("Since a source last answered", "s", [
            ("time() - max by (source) (kvgate_discovery_last_success_timestamp_seconds{$gate})", "{{source}}"),
        ]),
        Panel("Configuration", "short", [(rate("kvgate_config_reloads_total", "outcome"), "{{outcome}}/s")]),
        Panel("Warm-up of new replicas", "short", [(rate("kvgate_warm_up_total", "outcome"), "{{outcome}}/s")]),
        Panel("Faults beside the requests", "short", [(rate("kvgate_background_failures_total", "part"), "{{part}}/s")]),
        Panel("Lines of the traffic log", "short", [(rate("kvgate_traffic_log_lines_total", "outcome"), "{{outcome}}/s")]),
    ]),
    Row("Who asks", [
        Panel("Not let in", "reqps", [(rate("kvgate_admission_refused_total", "tenant, reason"), "{{tenant}}: {{reason}}")]),
        Panel("Wait in the gateway's own queue", "s", [
            ("histogram_quantile(0.99, sum by (le) (rate(kvgate_queue_seconds_bucket{$gate}[$__rate_interval])))", "p99"),
        ]),
        Panel("Limits counted by each gateway alone", "short", [
            ("sum(rate(kvgate_shared_limit_faults_total{$gate}[$__rate_interval]))", "times/s that Redis did not answer"),
        ]),
        Panel("Saved by caches", "s", [(rate("kvgate_tenant_saved_seconds_total", "tenant"), "{{tenant}}, seconds a second")]),
        Panel("Hit ratio by tenant", "percentunit", [
            (f"{rate('kvgate_tenant_cached_tokens_total', 'tenant')} / {rate('kvgate_tenant_prompt_tokens_total', 'tenant')}", "{{tenant}}"),
        ]),
    ]),
]  # fmt: skip

REPLICAS = [
    Row("State", [
        Panel("Up", "short", [(seen("kvgate_replica_up", "replica"), "{{replica}}")]),
        Panel("State", "short", [(seen("kvgate_replica_state", "replica, state"), "{{replica}} {{state}}")]),
        Panel("Probes failed, replicas left alone", "short", [
            (rate("kvgate_probe_failures_total", "replica"), "{{replica}} probes/s"),
            (rate("kvgate_ejections_total", "replica, fault"), "{{replica}} {{fault}}/s"),
        ]),
    ]),
    Row("Load", [
        Panel("Running", "short", [(seen("kvgate_engine_running", "replica, engine"), "{{replica}}/{{engine}}")]),
        Panel("Waiting", "short", [(seen("kvgate_engine_waiting", "replica, engine"), "{{replica}}/{{engine}}")]),
        Panel("Time to first token", "s", [(quantile(0.95, "kvgate_ttft_seconds", "replica"), "{{replica}} p95")]),
    ]),
    Row("What it holds, by tier", [
        Panel("GPU (L0)", "short", [
            ('max by (replica, engine) (kvgate_index_blocks{$gate, tier="GPU"})', "{{replica}}/{{engine}}"),
        ]),
        Panel("Host memory (L1)", "short", [
            ('max by (replica, engine) (kvgate_index_blocks{$gate, tier="CPU"})', "{{replica}}/{{engine}}"),
        ]),
        Panel("Groups that can't be judged", "short", [
            (seen("kvgate_kv_unjudged_groups", "replica, engine"), "{{replica}}/{{engine}}"),
        ]),
    ]),
    Row("Prediction", [
        Panel("Exact, over, under", "percentunit", [
            (f"sum by (outcome) ({rate('kvgate_predictions_total', 'outcome')}) / ignoring (outcome) group_left "
             "sum(rate(kvgate_predictions_total{$gate}[$__rate_interval]))", "{{outcome}}"),
        ]),
        Panel("Error", "short", [
            (quantile(0.95, "kvgate_prediction_error_blocks", "replica"), "{{replica}} p95, blocks too many"),
            (quantile(0.05, "kvgate_prediction_error_blocks", "replica"), "{{replica}} p5"),
        ]),
        Panel("Parity", "short", [
            ("max by (replica, outcome) (kvgate_parity{$gate})", "{{replica}} {{outcome}}"),
            (rate("kvgate_miscounted_prompts_total", "model"), "{{model}} miscounted/s"),
        ]),
        Panel("Error of the predicted time to first token", "s", [
            (quantile(0.9, "kvgate_ttft_prediction_error_seconds", "policy"), "{{policy}} p90, too late"),
            (quantile(0.1, "kvgate_ttft_prediction_error_seconds", "policy"), "{{policy}} p10"),
        ]),
        Panel("Error of engines' times", "percentunit", [
            ("max by (replica, by) (kvgate_engine_time_error{$gate})", "{{replica}} by {{by}}"),
        ], "Mean error of predicted times to first token: as fitted from what the engine shows, and by the profile alone."),
        Panel("Engines' times by the profile's", "short", [
            ("avg by (replica, engine) (kvgate_engine_time_factor{$gate})", "{{replica}}/{{engine}}"),
        ], "2 is an engine that takes twice as long as `profile` says."),
    ]),
    Row("Index feed", [
        Panel("Events that went wrong", "short", [
            (rate("kvgate_kv_event_faults_total", "replica, kind"), "{{replica}} {{kind}}/s"),
        ]),
        Panel("Staleness", "s", [(seen("kvgate_kv_staleness_seconds", "replica, engine"), "{{replica}}/{{engine}}")],
              "Since it was last certain that nothing is missing."),
        Panel("Audit", "short", [
            (rate("kvgate_index_audit_total", "verdict"), "{{verdict}}/s"),
            (rate("kvgate_index_rebuilds_total", "replica"), "{{replica}} rebuilt/s"),
        ]),
        Panel("Where matches come from", "short", [
            ("count by (state) (kvgate_index_state{$gate} == 1)", "{{state}}"),
            ("sum(rate(kvgate_index_outages_total{$gate}[$__rate_interval]))", "outages/s"),
        ]),
        Panel("Who takes in whose events", "short", [
            ("count by (pod) (kvgate_index_owned{$gate} == 1)", "{{pod}}"),
        ]),
        Panel("Other gateways", "short", [
            ("kvgate_gossip_gateways{$gate}", "{{pod}} hears"),
            ("sum by (kind) (rate(kvgate_gossip_total{$gate}[$__rate_interval]))", "words {{kind}}/s"),
        ]),
        Panel("Lag", "short", [(seen("kvgate_kv_sequence_lag", "replica, engine"), "{{replica}}/{{engine}}")]),
        Panel("Since the last event", "s", [
            ("min by (replica, engine) (kvgate_kv_last_event_age_seconds{$gate})", "{{replica}}/{{engine}}"),
        ], "An idle engine sends none."),
        Panel("Messages", "short", [
            ("max by (replica, engine) (rate(kvgate_kv_sequence{$gate}[$__rate_interval]))", "{{replica}}/{{engine}}"),
        ], "Of KV events, a second."),
        Panel("Left out of events", "short", [
            (rate("kvgate_kv_events_ignored_total", "replica, kind"), "{{replica}} {{kind}}/s"),
            (rate("kvgate_block_size_mismatches_total", "replica"), "{{replica}} another block size/s"),
        ]),
    ]),
]  # fmt: skip

STORAGE = [
    Row("Shared storage as the gateway sees it", [
        Panel("Look-ups", "reqps", [(rate("kvgate_l2_look_ups_total", "outcome"), "{{outcome}}")]),
        Panel("Time of a look-up", "s", [
            ("histogram_quantile(0.99, sum by (le) (rate(kvgate_l2_look_up_seconds_bucket{$gate}[$__rate_interval])))", "p99"),
        ]),
        Panel("Turned off", "short", [("max by (reason) (kvgate_l2_off{$gate})", "{{reason}}")]),
        Panel("Promises", "reqps", [(rate("kvgate_l2_hints_total", "outcome"), "{{outcome}}")]),
        Panel("Tokens promised", "short", [(rate("kvgate_l2_promised_tokens_total", "model"), "{{model}}")]),
        Panel("Load times against the settings", "percentunit", [("max by (model) (kvgate_l2_load_scale{$gate})", "{{model}}")]),
        Panel("Prefetches", "reqps", [(rate("kvgate_l2_prefetches_total", "outcome"), "{{outcome}}")]),
        Panel("Settings that fit no file", "short", [("max by (model) (kvgate_l2_mismatch{$gate})", "{{model}}")]),
        Panel("Promises that were not kept", "percentunit", [("max(kvgate_l2_false_hint_ratio{$gate})", "share")]),
    ]),
    Row("Curvine: data", [
        Panel("Read", "Bps", [('sum(rate(read_bytes{job=~"$curvine_worker"}[$__rate_interval]))', "all workers")]),
        Panel("Written", "Bps", [('sum(rate(write_bytes{job=~"$curvine_worker"}[$__rate_interval]))', "all workers")]),
        Panel("Speed of a read", "Bps", [
            ('sum by (instance) (rate(read_bytes{job=~"$curvine_worker"}[$__rate_interval])) / '
             'sum by (instance) (rate(read_time_us{job=~"$curvine_worker"}[$__rate_interval])) * 1000000', "{{instance}}"),
        ], "What prediction is set to by `l2.models.*.gigabytes_per_second`."),
    ]),
    Row("Curvine: network and metadata", [
        Panel("Network of the workers' nodes", "Bps", [
            ('sum by (instance) (rate(node_network_transmit_bytes_total{device!~"lo|veth.*"}[$__rate_interval]))', "{{instance}} out"),
            ('sum by (instance) (rate(node_network_receive_bytes_total{device!~"lo|veth.*"}[$__rate_interval]))', "{{instance}} in"),
        ]),
        Panel("Metadata operations", "ops", [
            ('sum by (operation) (rate(operation_duration_count{job=~"$curvine_master"}[$__rate_interval]))', "{{operation}}"),
        ]),
        Panel("Time of a metadata operation", "µs", [
            ('histogram_quantile(0.99, sum by (le, operation) '
             '(rate(operation_duration_bucket{job=~"$curvine_master"}[$__rate_interval])))', "{{operation}} p99"),
        ]),
        Panel("Journal", "short", [('max by (instance) (journal_queue_len{job=~"$curvine_master"})', "{{instance}} waiting")]),
    ]),
    Row("Curvine: disks", [
        Panel("Fill", "percentunit", [
            ('1 - available{job=~"$curvine_worker"} / capacity{job=~"$curvine_worker"}', "{{instance}}"),
            ("max(kvgate_l2_used_ratio{$gate})", "as mounted"),
        ], "Nothing is evicted by default: without a TTL it fills up."),
        Panel("Files", "short", [('max(inode_file_num{job=~"$curvine_master"})', "files")]),
        Panel("Workers and disks that are gone", "short", [
            ('max by (tag) (worker_num{job=~"$curvine_master"})', "workers: {{tag}}"),
            ('sum(storage_failed{job=~"$curvine_worker"})', "failed disks"),
        ]),
    ]),
]  # fmt: skip

DASHBOARDS: Mapping[str, tuple[str, Sequence[Row]]] = {
    "kvgate-overview": ("kvgate: overview", OVERVIEW),
    "kvgate-replicas": ("kvgate: replicas, predictions, index", REPLICAS),
    "kvgate-storage": ("kvgate: shared storage", STORAGE),
}


def dashboard(uid: str) -> dict[str, Any]:
    """As Grafana imports it."""
    title, rows = DASHBOARDS[uid]
    panels: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        panels.append(_heading(row.title, len(panels) + 1, top))
        for number, panel in enumerate(row.panels):
            place = {
                "h": _HEIGHT,
                "w": 24 // _COLUMNS,
                "x": 24 // _COLUMNS * (number % _COLUMNS),
                "y": top + 1 + _HEIGHT * (number // _COLUMNS),
            }
            panels.append(_graph(panel, len(panels) + 1, place))
        top += 1 + _HEIGHT * -(-len(row.panels) // _COLUMNS)
    variables = [_variable("namespace", "label_values(kvgate_replica_up, namespace)")]
    if uid == "kvgate-storage":
        variables += [_variable(f"curvine_{part}", f"label_values({metric}, job)")
                      for part, metric in (("master", "inode_file_num"), ("worker", "store_total_disks"))]  # fmt: skip
    return {
        "uid": uid,
        "title": title,
        "tags": ["kvgate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "source"}, *variables]
        },
        "panels": panels,
    }


def _heading(title: str, id: int, top: int) -> dict[str, Any]:
    place = {"h": 1, "w": 24, "x": 0, "y": top}
    return {"id": id, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": place}


def _graph(panel: Panel, id: int, place: Mapping[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": id,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "gridPos": place,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0 if panel.unit != "short" else None}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": source,
                "expr": query.replace("$gate", 'namespace=~"$namespace"'),
                "legendFormat": legend,
            }
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "name": name, "type": "query", "query": query, "datasource": source, "includeAll": True, "multi": True,
        "allValue": ".*", "current": {"text": "All", "value": "$__all"}, "refresh": 2,
    }  # fmt: skip


def text(uid: str) -> str:
    """The file."""
    return json.dumps(dashboard(uid), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write all of them."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for uid in DASHBOARDS:
        (TARGET / f"{uid}.json").write_text(text(uid))
    return 0


if __name__ == "__main__":
    sys.exit(main())
