"""The alarms of deploy/monitoring: promtool runs their tests, and each figure and label that they name is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tenure.agent.metrics import METRICS as OF_MEMBERS
from tenure.ui.fleet_figures import SCOPE_METRICS
from tests.kit.servers import installed
from tests.kit.servers.programs import program

METRICS: Final = {**OF_MEMBERS, **SCOPE_METRICS}
FOLDER: Final = Path(__file__).parents[2] / "deploy" / "monitoring"
OF_PROMETHEUS: Final = {"job", "instance"}
WORD: Final = re.compile(r"\btenure_\w+")
SHOWN: Final = re.compile(r"\$labels\.(\w+)")
BY: Final = re.compile(r"by \(([^)]*)\)")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "rules.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("words", [("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml")])
def test_promtool_takes_them(words: tuple[str, ...]) -> None:
    with installed():
        promtool = program("promtool", "promtool", fix="run scripts/setup.sh prometheus")
    done = subprocess.run([promtool, *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_each_figure_and_label_is_there(rule: dict[str, Any]) -> None:
    named = [name.removeprefix("tenure_") for name in WORD.findall(rule["expr"])]
    assert all(name in METRICS for name in named), named
    labels = {"scope", "member", *(label for name in named for label in METRICS[name][2])} if named else OF_PROMETHEUS
    if (grouped := BY.search(rule["expr"])) is not None:
        labels = {label.strip() for label in grouped[1].split(",")}
    assert set(SHOWN.findall("".join(rule["annotations"].values()))) <= labels
    assert {"summary", "do"} == rule["annotations"].keys()


def test_each_alarm_has_a_test() -> None:
    tests = (FOLDER / "rules_test.yml").read_text(encoding="utf-8")
    for rule in rules():
        fires = re.compile(rf"alertname: {rule['alert']}\n *exp_alerts:")
        assert fires.search(tests), f"{rule['alert']} never fires in the tests"


def test_the_page_names_no_figure_that_is_not_there() -> None:
    page = (FOLDER.parents[1] / "docs" / "operate.md").read_text(encoding="utf-8")
    assert set(WORD.findall(page)) <= {f"tenure_{name}" for name in METRICS}
