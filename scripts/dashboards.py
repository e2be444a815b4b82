#!/usr/bin/env python3
"""Make the dashboards for Grafana, and the alarms for the operator of Prometheus: `scripts/dashboards.py`.

Writes `deploy/monitoring/dashboards/*.json` and `deploy/kubernetes/monitoring/rules.yaml`, always the same for the same
sources; `tests/docs/test_dashboards.py` compares. A panel is an item of `FLEET` or `PIPELINE`. No library makes them:
on PyPI, the newest version of grafana-foundation-sdk is that of the oldest schema, and a panel has ten fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
MONITORING: Final = ROOT / "deploy" / "monitoring"
OF_OPERATOR: Final = ROOT / "deploy" / "kubernetes" / "monitoring" / "rules.yaml"

_S: Final = '{scope="$scope"}'
_RATE: Final = f"{_S}[$__rate_interval]"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_PER_ROW: Final = 3


@dataclass(frozen=True, slots=True)
class Panel:
    """A drawing. `legend`: how a series is called; `what`: the sentence behind the title."""

    title: str
    expr: str
    legend: str = ""
    unit: str = "short"
    kind: str = "timeseries"
    what: str = ""


def _quantile(metric: str, by: str, share: float = 0.99) -> str:
    return f"histogram_quantile({share:g}, sum by (le, {by}) (rate(tenure_{metric}_bucket{_RATE})))"


FLEET: Final = (
    Panel("Led", "sum(max by (scope) (tenure_leader))", kind="stat", what="Pipelines that have a leader."),
    Panel(
        "Without a leader",
        "count(max by (scope) (tenure_leader) == 0) or vector(0)",
        kind="stat",
        what="Pipelines whose members answer, and of which none leads.",
    ),
    Panel("Paused", "sum(max by (scope) (tenure_paused))", kind="stat", what="Pipelines that wait for an operator."),
    Panel("Led by anybody", "max by (scope) (tenure_leader)", "{{scope}}", kind="state-timeline"),
    Panel("Members", "count by (scope) (tenure_leader)", "{{scope}}"),
    Panel("Ready to lead", "sum by (scope) (tenure_ready)", "{{scope}}", what="The leader counts."),
    Panel(
        "Age of the oldest newest batch",
        "max by (scope) (time() - tenure_last_commit_timestamp_seconds)",
        "{{scope}}",
        "s",
        what="Of the query whose last batch is longest ago.",
    ),
    Panel("Rows", "sum by (scope) (rate(tenure_input_rows_total[$__rate_interval]))", "{{scope}}", "rowsps"),
    Panel("Backlog of Kafka", 'sum by (scope) (tenure_source_backlog{unit="offsets"})', "{{scope}}"),
    Panel("Failing", "max by (scope) (tenure_failing)", "{{scope}}", kind="state-timeline"),
    Panel("Drivers that died", "sum by (scope) (increase(tenure_driver_restarts_total[1h]))", "{{scope}}"),
    Panel("Changes of the leader", "sum by (scope) (increase(tenure_terms_won_total[1h]))", "{{scope}}"),
    Panel("Store away", "max by (scope) (tenure_store_away)", "{{scope}}", kind="state-timeline"),
    Panel(
        "Since the last answer of the store",
        "max by (scope) (time() - tenure_store_last_contact_timestamp_seconds)",
        "{{scope}}",
        "s",
    ),
    Panel(
        "Free on the disk of the storage",
        "min by (scope) (tenure_storage_free_bytes)",
        "{{scope}}",
        "bytes",
        what="Of storages that are folders.",
    ),
    Panel("Orphans", "sum by (scope) (tenure_orphans)", "{{scope}}", what="What dead leaders left and nobody removed."),
)
"""All pipelines that one Prometheus scrapes."""

PIPELINE: Final = (
    Panel("Who leads", f"max by (member) (tenure_leader{_S})", "{{member}}", kind="state-timeline"),
    Panel("Ready to lead", f"sum(tenure_ready{_S})", kind="stat", what="The leader counts: 2 or more are wanted."),
    Panel("Paused", f"max(tenure_paused{_S})", kind="stat", what="1: a batch failed at its last attempt."),
    Panel("Ends of terms", f"sum by (why) (increase(tenure_terms_ended_total{_S}[1h]))", "{{why}}"),
    Panel(
        "Takeover, mean",
        f"sum by (query) (tenure_takeover_duration_seconds_sum{_S})"
        f" / sum by (query) (tenure_takeover_duration_seconds_count{_S})",
        "{{query}}",
        "s",
        what="From the grant of a term to the first batch.",
    ),
    Panel("Drivers that died", f"sum by (member) (increase(tenure_driver_restarts_total{_S}[1h]))", "{{member}}"),
    Panel("Batch, 99th percentile", _quantile("batch_duration_seconds", "query"), "{{query}}", "s"),
    Panel("Batch, median", _quantile("batch_duration_seconds", "query", 0.5), "{{query}}", "s"),
    Panel("Plan, 99th percentile", _quantile("plan_duration_seconds", "query"), "{{query}}", "s"),
    Panel("Rows", f"sum by (query) (rate(tenure_input_rows_total{_RATE}))", "{{query}}", "rowsps"),
    Panel("Running batch", f"max by (query) (tenure_batch_running_seconds{_S})", "{{query}}", "s"),
    Panel(
        "Age of the newest batch",
        f"time() - max by (query) (tenure_last_commit_timestamp_seconds{_S})",
        "{{query}}",
        "s",
    ),
    Panel("Backlog", f"sum by (query, source, unit) (tenure_source_backlog{_S})", "{{query}} {{source}} {{unit}}"),
    Panel(
        "Batches at their limit of files",
        f"sum by (query) (rate(tenure_batches_at_limit_total{_RATE}))"
        f" / sum by (query) (rate(tenure_batches_committed_total{_RATE}))",
        "{{query}}",
        "percentunit",
        what="Near 100 %: more files wait than a batch may take.",
    ),
    Panel("Watermark lag", f"max by (query) (tenure_watermark_lag_seconds{_S})", "{{query}}", "s"),
    Panel("Rows of the state", f"max by (query) (tenure_state_rows{_S})", "{{query}}"),
    Panel("Bytes of the state", f"max by (query) (tenure_state_bytes{_S})", "{{query}}", "bytes"),
    Panel("Failed batches", f"sum by (query) (increase(tenure_batches_failed_total{_S}[1h]))", "{{query}}"),
    Panel("Mirrors, batches behind", f"max by (member) (tenure_mirror_lag_batches{_S})", "{{member}}"),
    Panel("Silence of the driver", f"max by (member) (tenure_driver_silent_seconds{_S})", "{{member}}", "s"),
    Panel("Session stands for", f"min by (member) (tenure_session_remaining_seconds{_S})", "{{member}}", "s"),
    Panel("Store, 99th percentile", _quantile("store_request_duration_seconds", "op"), "{{op}}", "s"),
    Panel("Store, errors", f"sum by (member, kind) (rate(tenure_store_errors_total{_RATE}))", "{{member}} {{kind}}"),
    Panel(
        "Since the last answer of the store",
        f"time() - max by (member) (tenure_store_last_contact_timestamp_seconds{_S})",
        "{{member}}",
        "s",
    ),
    Panel("Late writes refused", f"sum by (by) (increase(tenure_writes_refused_total{_S}[1h]))", "{{by}}"),
    Panel("Orphans", f"max(tenure_orphans{_S})"),
)
"""One pipeline."""


def dashboard(uid: str, title: str, panels: Sequence[Panel], *, variables: Sequence[Mapping[str, Any]]) -> str:
    """A dashboard as Grafana imports it."""
    chosen = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    described = {
        "uid": uid,
        "title": title,
        "tags": ["tenure"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [chosen, *variables]},
        "panels": [_drawn(panel, place) for place, panel in enumerate(panels)],
    }
    return json.dumps(described, indent=1) + "\n"


def _drawn(panel: Panel, place: int) -> dict[str, Any]:
    width = 24 // _PER_ROW
    at = {"x": place % _PER_ROW * width, "y": place // _PER_ROW * 8, "w": width, "h": 8}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    options: dict[str, Any] = {}
    if panel.kind == "timeseries":
        defaults["custom"] = {"spanNulls": False, "fillOpacity": 10}  # a line breaks in an outage
        options["legend"] = {"displayMode": "list", "placement": "bottom"}
    return {
        "id": place + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.what,
        "datasource": _SOURCE,
        "gridPos": at,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": panel.expr, "legendFormat": panel.legend}],
    }


def files() -> dict[Path, str]:
    """Each file, and its text."""
    scope = {
        "name": "scope",
        "type": "query",
        "label": "Pipeline",
        "datasource": _SOURCE,
        "query": "label_values(tenure_leader, scope)",
        "refresh": 2,
        "sort": 1,
    }
    rules = yaml.safe_load((MONITORING / "rules.yml").read_text(encoding="utf-8"))
    named = {"name": "tenure", "labels": {"app.kubernetes.io/part-of": "tenure"}}
    rule = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": named, "spec": rules}
    head = "# Made by scripts/dashboards.py from deploy/monitoring/rules.yml, whose tests are there.\n"
    return {
        MONITORING / "dashboards" / "fleet.json": dashboard(
            "tenure-fleet", "Tenure: all pipelines", FLEET, variables=[]
        ),
        MONITORING / "dashboards" / "pipeline.json": dashboard(
            "tenure-pipeline", "Tenure: one pipeline", PIPELINE, variables=[scope]
        ),
        OF_OPERATOR: head + yaml.safe_dump(rule, sort_keys=False, width=120, allow_unicode=True),
    }


def main() -> None:
    """Write the files."""
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
