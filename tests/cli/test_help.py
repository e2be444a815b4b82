"""The flags that a new user tries first: --version, -h, and the completion of the shell."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.support import tenure
from tests.kit.waiting import NEVER_S


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
    assert complete(tmp_path, "list", "--output", "") == ["table", "json"]
