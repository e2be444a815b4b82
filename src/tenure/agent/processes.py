"""The processes of this machine, from /proc, with their parents, groups and sessions.

Promise: a process that ends meanwhile is left out. A machine without /proc has no processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One process. `state` is the kernel's letter: T stopped, Z ended and not reaped. `threads`: how many it has; the
    first thread of a process may have ended before the others. `began`: when, in ticks since the machine's start."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    threads: int
    began: int


def process(pid: int) -> ProcessInfo | None:
    """The process with this id; None: there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")  # the name may be cut off inside a character
    except OSError:
        return None
    state, *numbers = text.rpartition(")")[2].split()  # the name may hold blanks and brackets
    parent, group, session, threads, began = (int(numbers[at]) for at in (0, 1, 2, 16, 18))
    return ProcessInfo(pid, state, parent, group, session, threads, began)


def processes() -> Iterator[ProcessInfo]:
    """All processes of this machine."""
    for entry in Path("/proc").glob("[0-9]*"):
        info = process(int(entry.name))
        if info is not None:
            yield info
