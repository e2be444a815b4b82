"""How much memory this host, or the control group of this process, has left.

Promise: None where nothing says it. A limit of a control group (version 2) counts with those of the groups above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_UNITS: Final = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(r"(\d+)([bkmgt]?)b?")
"""As Spark and the JVM write it: `4g`, `512m`. A number alone is in MiB."""


def heap_bytes(size: str) -> int | None:
    """The bytes of a heap, as Spark reads the setting; None: it is no size."""
    found = _SIZE.fullmatch(size.strip().lower())
    return None if found is None else int(found[1]) * _UNITS[found[2]]


def free_memory(root: Path = Path("/")) -> int | None:
    """The bytes that are left. `root`: of the file system with `proc` and `sys`."""
    return min(_left(root), default=None)


def _left(root: Path) -> Iterator[int]:
    with suppress(OSError):
        available = re.search(r"^MemAvailable:\s+(\d+) kB$", (root / "proc/meminfo").read_text(), re.MULTILINE)
        if available is not None:
            yield int(available[1]) * 1024
    with suppress(OSError):
        group = re.search(r"^0::/(.*)$", (root / "proc/self/cgroup").read_text(), re.MULTILINE)
        top = root / "sys/fs/cgroup"
        folder = top / ("" if group is None else group[1])
        for one in (folder, *(parent for parent in folder.parents if parent.is_relative_to(top))):
            with suppress(OSError, ValueError):  # ValueError: `max`, no limit
                yield int((one / "memory.max").read_text()) - _used(one)


def _used(group: Path) -> int:
    """What the group holds, but for pages of files that the kernel gives up first. Raises OSError."""
    cached = re.search(r"^inactive_file (\d+)$", (group / "memory.stat").read_text(), re.MULTILINE)
    return int((group / "memory.current").read_text()) - (0 if cached is None else int(cached[1]))
