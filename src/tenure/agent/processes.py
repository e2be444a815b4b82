"""The processes of this machine, from /proc: who started whom, who belongs together.

Promise: a process that ends meanwhile is left out. Where there is no /proc there are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One process. `state` is the kernel's letter: T stopped, Z ended and not reaped."""

    pid: int
    state: str
    parent: int
    group: int
    session: int


def process(pid: int) -> ProcessInfo | None:
    """One process; None: there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")  # its name may be cut off inside a character
    except OSError:
        return None
    state, parent, group, session = text.rpartition(")")[2].split()[:4]  # or hold blanks and brackets
    return ProcessInfo(pid, state, int(parent), int(group), int(session))


def processes() -> Iterator[ProcessInfo]:
    """All processes."""
    for entry in Path("/proc").glob("[0-9]*"):
        found = process(int(entry.name))
        if found is not None:
            yield found
