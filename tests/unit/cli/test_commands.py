"""Each command imports its own module alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
import typer.main

import tenure
from tenure.cli.commands import COMMANDS, app_for, app_of

LIGHT = (
    "status",
    "history",
    "list",
    "scopes",
    "events",
    "switchover",
    "failover",
    "pause",
    "resume",
    "restart",
    "reinit",
)
HEAVY = (
    "tenure.assembly",
    "tenure.agent",
    "tenure.driver",
    "tenure.moves",
    "tenure.cleanup",
    "tenure.takeover",
    "pyspark",
)
NAMES = """
import sys
import tenure
from tenure.cli.commands import app_for
app_for([sys.argv[1]])
print(*sorted(sys.modules))
"""
UNREAD = (
    "fsspec",
    "rich.console",
    "tenure.cleanup",
    "tenure.cli.members",
    "tenure.declarations",
    "tenure.events",
    "tenure.ownership",
    "tenure.pipelines",
    "tenure.scope_context",
    "tenure.sinks",
    "tenure.storage.local",
    "tenure.storage.remote",
    "urllib.request",
)
"""What a look at a store does not need, and what would cost it a third of its processor time."""
LOOKS = """
import sys
from contextlib import suppress
from tenure.cli.main import main
with suppress(SystemExit):
    main()
print("imported:", *sorted(sys.modules))
"""


def named(words: Sequence[str]) -> set[str]:
    """The commands of the application for a command line."""
    command = typer.main.get_command(app_for(words))
    return set(getattr(command, "commands", {}))


def test_a_command_line_gets_the_command_that_it_names() -> None:
    assert named(["status", "--output", "json"]) == {"status", "version"}
    assert named(["checkpoints", "list"]) == {"checkpoints", "version"}


@pytest.mark.parametrize("words", [[], ["-h"], ["--version"], ["bogus"]])
def test_every_other_line_gets_all(words: Sequence[str]) -> None:
    assert named(words) == {*COMMANDS, "version"}


def test_the_completion_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TENURE_COMPLETE", "complete_bash")
    assert named(["status"]) == {*COMMANDS, "version"}


@pytest.mark.parametrize(("line", "imported"), [("tenure list --o", ["list"]), ("tenure list", COMMANDS)])
def test_the_completion_gets_the_command_that_is_typed(
    line: str, imported: Collection[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TENURE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    assert named([]) == {*imported, "version"}


@pytest.mark.parametrize("command", LIGHT)
def test_a_look_does_not_pay_for_a_member(command: str) -> None:
    done = subprocess.run([sys.executable, "-c", NAMES, command], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith(HEAVY)] == []


@pytest.mark.parametrize("command", ["status", "list", "history", "scopes"])
def test_a_look_imports_what_it_needs_alone(command: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ha.db"
    with tenure.lead("rows", store=url, storage=f"file://{tmp_path}/storage"):
        pass
    words = [command, "--store", url, *([] if command == "scopes" else ["--scope", "rows"])]
    done = subprocess.run([sys.executable, "-c", LOOKS, *words], capture_output=True, text=True, check=True)
    output, imported, names = done.stdout.partition("imported:")
    assert output, done.stderr  # the look was taken
    assert imported
    assert [name for name in names.split() if any(name == one or name.startswith(f"{one}.") for one in UNREAD)] == []


def test_the_application_of_no_command_has_the_version_alone() -> None:
    assert set(getattr(typer.main.get_command(app_of([])), "commands", {})) == {"version"}
