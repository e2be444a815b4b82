"""The bench helper: turns are fair, warm-up is not counted, figures are those of the samples."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench.harness import Comparison, Contender, compare, percentile, report, summarise, timed


def test_contenders_take_turns_and_the_first_rotates() -> None:
    order: list[str] = []

    def contender(name: str) -> Contender:
        def run() -> float:
            order.append(name)
            return float(len(order))

        return run

    comparison = compare("turns", {"a": contender("a"), "b": contender("b")}, rounds=3, warmup=0)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert comparison.samples == {"a": [1.0, 4.0, 5.0], "b": [2.0, 3.0, 6.0]}


def test_warm_up_is_run_and_not_counted() -> None:
    runs: list[int] = []

    def contender() -> float:
        runs.append(1)
        return 0.5

    assert compare("warm", {"only": contender}, rounds=2, warmup=3).samples == {"only": [0.5, 0.5]}
    assert len(runs) == 5


def test_the_figures() -> None:
    summary = summarise(Comparison("x", "s", {"base": [2.0] * 4, "other": [1.0, 2.0, 3.0, 100.0]}))["other"]
    assert (summary.median, summary.p99, summary.spread, summary.ratio) == (2.5, 100.0, 2.0, 1.25)


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 50), (99, 99), (100, 100)])
def test_percentile_is_a_sample(percent: float, expected: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == expected


def test_the_report_has_the_table_and_the_raw_figures(tmp_path: Path) -> None:
    printed = io.StringIO()
    comparison = compare("quick", {"nothing": timed(lambda: None)}, rounds=5)
    file = report(comparison, results=tmp_path, console=Console(file=printed, width=200))
    assert "nothing" in printed.getvalue()
    assert "Python" in printed.getvalue()
    written = json.loads(file.read_text())
    assert len(written["samples"]["nothing"]) == 5
    assert written["machine"]["cores"] >= 1
