"""The lines of the command line on stderr, and the waiting line of a terminal, which the next line replaces.

Promise: a line is written whole, also where threads write at once; a closed terminal or pipe does not stop a member.
Where stderr is no terminal, nothing is ever replaced. Not promised: a line of its own for the output of a pipeline's
code, which may come while a waiting line stands.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Final

from tenure.wording import masked

ERASE: Final = "\r\x1b[K"
"""Moves to the begin of the line and clears it, at every terminal but a dumb one."""

_DOTS: Final = "..."


def replaces() -> bool:
    """Whether stderr is a terminal at which a line can be replaced."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class _Lines:
    """The lines of this process, of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the writes, and _waiting
        self._waiting = False
        """Whether a waiting line stands at the cursor."""

    def write(self, text: str, *, waiting: bool) -> None:
        with self._lock, suppress(OSError):
            before, self._waiting = self._waiting, waiting
            if before or text:
                sys.stderr.write(f"{ERASE if before else ''}{text}")
                sys.stderr.flush()


_LINES: Final = _Lines()


def say(line: str) -> None:
    """Write a line, without passwords."""
    _LINES.write(f"{masked(line)}\n", waiting=False)


def say_waiting(line: str) -> None:
    """Show a line until the next line comes; only where `replaces`. It is cut to the width of the terminal, because a
    line that is folded cannot be replaced."""
    if replaces():
        line = masked(line)
        most = _columns() - 1
        _LINES.write(line if len(line) <= most else line[: most - len(_DOTS)] + _DOTS, waiting=True)


def wait_no_more() -> None:
    """Remove the waiting line, if there is one."""
    _LINES.write("", waiting=False)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80
