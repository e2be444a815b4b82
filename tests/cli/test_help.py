"""The flags that a new user tries first: --version, -h, and the completion of the shell."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tenure.cli.commands import COMMANDS, app_of
from tests.cli.support import Place, tenure
from tests.cli.test_verbs import Actor
from tests.kit.members import MAIN
from tests.kit.waiting import NEVER_S, wait_until


def test_the_version() -> None:
    for words in (("--version",), ("version",)):
        told = tenure(*words)
        assert (told.code, told.out, told.err) == (0, f"tenure {version('tenure')}\n", "")


@pytest.mark.parametrize(
    "command", [(), ("run",), ("list",), ("checkpoints",), ("checkpoints", "show"), ("sweep", "plan")]
)
def test_the_short_flag_for_help(command: tuple[str, ...]) -> None:
    told, long = tenure(*command, "-h"), tenure(*command, "--help")
    assert (told.code, told.err) == (0, "")
    assert told.out == long.out
    assert f"Usage: tenure {' '.join(command)}".rstrip() in told.out


def commands(group: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The words of each command, beside the command."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *words, name)
        else:
            yield (*words, name), command


def test_the_help_of_each_command_has_an_example_of_it() -> None:
    found = dict(commands(typer.main.get_command(app_of(COMMANDS))))
    assert len(found) > 25
    wrong = []
    for words, command in found.items():
        lines = [line.strip() for line in inspect.cleandoc(command.help).splitlines()]
        if not any(f"{line} ".startswith(f"Example: tenure {' '.join(words)} ") for line in lines):
            wrong.append(words)
    assert wrong == []


def test_the_defaults_of_settings_are_in_the_help() -> None:
    told = " ".join(tenure("run", "--help").out.replace("│", " ").split())
    assert "How long a leader may be silent: 5s, 500ms. [default: (10s)]" in told
    assert "[default: (warm)]" in told


def complete(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word, with the script that the command prints."""
    script = (
        'eval "$(tenure --show-completion)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_tenure_completion tenure; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", "tenure", *words],
        capture_output=True,
        text=True,
        timeout=NEVER_S,
        check=True,
        env=environment,
    )
    assert list(folder.iterdir()) == []
    return done.stdout.split()


def test_bash_completes_commands_flags_and_values(tmp_path: Path) -> None:
    assert complete(tmp_path, "sw") == ["switchover", "sweep"]
    assert complete(tmp_path, "list", "--out") == ["--output"]
    assert complete(tmp_path, "list", "--output", "") == ["table", "json", "yaml"]


def test_bash_completes_the_names_of_scopes_and_members(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    place = Place(tmp_path)
    place.make_store()
    store = ("--store", f"sqlite://{place.store}")
    with Actor(place, "anna"):
        wait_until(lambda: place.look("status")["leader"] == "anna")
        assert complete(tmp_path / "home", "list", *store, "--scope", "") == ["rows"]
        assert complete(tmp_path / "home", "remove", *store, "r") == ["rows"]
        assert complete(tmp_path / "home", "restart", *store, "--scope", "rows", "") == ["anna"]
        assert complete(tmp_path / "home", "switchover", *store, "--scope", "rows", "--candidate", "b") == []


@pytest.mark.parametrize("store", ["sqlite:///no/such/ha.db", "zookeeper://anna:hush@127.0.0.1:1/x", "bogus"])
def test_a_store_that_does_not_answer_offers_nothing_and_says_nothing(tmp_path: Path, store: str) -> None:
    done = subprocess.run(
        [*MAIN, "list"],
        capture_output=True,
        text=True,
        timeout=NEVER_S,
        check=False,
        env={
            **os.environ,
            "_TENURE_COMPLETE": "complete_bash",
            "COMP_WORDS": f"tenure list --store {store} --scope ",
            "COMP_CWORD": "5",
        },
        cwd=tmp_path,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")
