"""A terminal at which one command after the other is typed: `python -m tests.cli.terminal`, with a JSON list of words a
line on stdin, answers a JSON object a line: what the terminal shows, and the exit code.

Promise: each command runs in a process of its own, at a pseudo-terminal of the asked width. The processes are forked
from this one, which has imported the command line and has no other thread, so a command takes no second to start.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.house.tree import ROOT

STYLE = re.compile(r"\x1b\[[0-9;]*m")
STAYS_NOT = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h(\r?\x1b\[1A\x1b\[2K)?|[^\n]*\x1b\[K", re.DOTALL)
"""A bar of progress, which hides the cursor until it goes; and a line that another line replaces."""


class Terminal:
    """A terminal of so many columns, in a folder. Used as a block."""

    def __init__(self, folder: Path, *, columns: int, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.terminal", str(columns)],
            cwd=folder,
            env={**environment, "TERM": "xterm", "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def type(self, words: Sequence[str]) -> tuple[str, int]:
        """What stays at the terminal of a command, without styles, and its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(words)) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        lines = STAYS_NOT.sub("", STYLE.sub("", answer["shown"]).replace("\r\n", "\n")).split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip("\n"), answer["code"]


def _typed(words: Sequence[str], *, columns: int) -> dict[str, Any]:
    process, terminal = pty.fork()
    if process == 0:
        from tenure.cli.main import main

        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - they end with the process
        sys.argv = ["tenure", *words]
        code = 1
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    shown = b""
    while chunk := _read(terminal):
        shown += chunk
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    return {"shown": shown.decode(), "code": os.waitstatus_to_exitcode(status)}


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


if __name__ == "__main__":
    from tenure.cli.commands import COMMANDS, app_of

    app_of(COMMANDS)  # imported once for all commands, which are forked

    for line in sys.stdin:
        sys.stdout.write(json.dumps(_typed(json.loads(line), columns=int(sys.argv[1]))) + "\n")
        sys.stdout.flush()
