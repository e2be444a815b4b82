"""The versions of etcd with a known fault that the store cannot make good.

Promise: pure. A version that does not parse has no known fault: other programs speak etcd's protocol, too.
"""

from __future__ import annotations

import re
from typing import Final

_PARTS: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")

_REVOKES: Final = "a server that led and was stopped may end living sessions when it wakes (etcd#15247)"
_DIFFERS: Final = "its servers may differ in their data after a crash (etcd#13766)"

_FAULTS: Final = (
    ((0, 0, 0), (3, 4, 31), _REVOKES, "3.4.31"),
    ((3, 5, 0), (3, 5, 3), _DIFFERS, "3.5.13"),
    ((3, 5, 3), (3, 5, 13), _REVOKES, "3.5.13"),
)
"""From this version, before that version: the fault, and the version without it."""


def fault_of(version: str) -> str | None:
    """The fault of a version and the fix, in one line; None: no fault is known."""
    parts = _PARTS.match(version)
    if parts is None:
        return None
    number = tuple(map(int, parts.groups()))
    for first, fixed, fault, better in _FAULTS:
        if first <= number < fixed:
            return f"etcd {version} has a known fault: {fault}; use {better} or newer"
    return None
