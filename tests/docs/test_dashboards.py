"""The dashboards of deploy/monitoring are those that their script makes, and ask for figures and labels that are there.

`test_alarms_live.py` asks a real Prometheus for each panel."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scripts.dashboards import FLEET, PIPELINE, Panel, files
from tenure.agent.metrics import METRICS
from tests.house.tree import ROOT
from tests.kit.servers import installed
from tests.kit.servers.programs import program

OF_ALL: Final = {"scope", "member", "le"}
NAME: Final = re.compile(r"\btenure_(\w+)")
BY: Final = re.compile(r"by \(([^)]*)\)")
CHOSEN: Final = re.compile(r"[{,](\w+)=")
SHOWN: Final = re.compile(r"\{\{(\w+)\}\}")


def named(panel: Panel) -> list[str]:
    """The figures of a panel, without the series of a histogram."""
    found = NAME.findall(panel.expr)
    return [name if name in METRICS else re.sub(r"_(bucket|sum|count)\Z", "", name) for name in found]


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.name))
def test_a_file_is_what_the_script_makes(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], "run scripts/dashboards.py"


@pytest.mark.parametrize("panel", [*FLEET, *PIPELINE], ids=lambda panel: str(panel.title))
def test_each_figure_and_label_is_there(panel: Panel) -> None:
    found = named(panel)
    assert found
    assert all(name in METRICS for name in found), found
    grouped = [{label.strip() for label in by.split(",")} for by in BY.findall(panel.expr)]
    wanted = {*CHOSEN.findall(panel.expr)}.union(*grouped)
    assert all(wanted <= OF_ALL | {*METRICS[name][2]} for name in found), wanted
    assert panel.kind == "stat" or all({*SHOWN.findall(panel.legend)} == by - {"le"} for by in grouped), (
        "a series is called by what tells it apart"
    )


def test_each_dashboard_has_its_panels_once() -> None:
    for text in (text for path, text in files().items() if path.suffix == ".json"):
        panels = json.loads(text)["panels"]
        assert len({panel["id"] for panel in panels}) == len({str(panel["gridPos"]) for panel in panels}) == len(panels)
        assert len({panel["title"] for panel in panels}) == len(panels)


def test_each_figure_of_members_has_a_panel_or_a_reason() -> None:
    without = {
        "build_info",
        "state",
        "leader_seen",
        "epoch",
        "last_batch",
        "mirror_lag_bytes",
        "term_start_timestamp_seconds",
    }
    without |= {"store_failures_total", "away_total", "orphans_removed_total", "seed_duration_seconds"}
    drawn = {name for panel in (*FLEET, *PIPELINE) for name in named(panel)}
    assert set(METRICS) - drawn == without


def test_a_kustomization_takes_the_component(tmp_path: Path) -> None:
    with installed():
        kubectl = program("kubectl", "kubectl", fix="make kubernetes")
    deploy = tmp_path / "deploy"
    subprocess.run(["cp", "-r", ROOT / "deploy", deploy], check=True)
    (mine := deploy / "kubernetes" / "mine").mkdir()
    wanted = {"namespace": "shops", "resources": ["../members"], "components": ["../monitoring"]}
    (mine / "kustomization.yaml").write_text(json.dumps(wanted), encoding="utf-8")
    done = subprocess.run([kubectl, "kustomize", mine], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made: dict[tuple[str, str], Any] = {
        (one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout)
    }
    assert {one["metadata"].get("namespace") for one in made.values()} == {"shops"}
    scrape = made["PodMonitor", "tenure"]["spec"]
    pod = made["Deployment", "shop"]["spec"]["template"]
    assert scrape["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    ports = {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}
    assert {endpoint["port"] for endpoint in scrape["podMetricsEndpoints"]} <= ports
    rules = yaml.safe_load((ROOT / "deploy/monitoring/rules.yml").read_text(encoding="utf-8"))
    assert made["PrometheusRule", "tenure"]["spec"] == rules
    boards = made["ConfigMap", "tenure-dashboards"]
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {json.loads(text)["uid"] for text in boards["data"].values()} == {"tenure-fleet", "tenure-pipeline"}
