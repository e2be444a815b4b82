"""How far a command has come: lines in a log, a bar at a terminal."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from rich.console import Console

from tenure.cli.bar import bar, shown_in
from tenure.cli.progress import progress
from tenure.progress import Step
from tests.kit.clock import ManualClock


def test_a_log_has_a_line_each_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    with progress(clock) as tell:
        for second in range(25):
            tell(Step("copies", second, 100, "files"))
            clock.advance(timedelta(seconds=1))
    assert capsys.readouterr() == ("", "copies: 10 of 100 files\ncopies: 20 of 100 files\n")


def test_a_terminal_has_a_bar_that_says_the_counts_and_goes() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    shown = bar(console)
    tell = shown_in(shown)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "", "a command without a report writes nothing"
    try:
        tell(Step("copies", 120, 1240, "files", 1_200_000, 3_400_000))
        tell(Step("copies", 240, 1240, "files", 2_400_000, 3_400_000))
        (task,) = shown.tasks
        assert (task.description, task.completed, task.total) == ("copies", 240, 1240)
        assert task.fields["counts"] == "240 of 1,240 files, 2.4 MB of 3.4 MB"
        shown.refresh()
    finally:
        shown.stop()
    assert "240 of 1,240 files" in console.file.getvalue()
