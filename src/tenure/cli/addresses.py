"""The addresses of members, kept for a time when their store is away.

Promise: only addresses are kept that members announced, as this user's last look at the store saw them. Nothing is
written but these files, below `XDG_CACHE_HOME`; without it, a command works, and knows no addresses.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tenure.coordination.candidates import Candidate
from tenure.wording import masked


def remember(store: str, scope: str, members: Iterable[Candidate]) -> None:
    """Keep the addresses of the live members of a scope for a time when its store is away."""
    known = {one.member: one.http for one in members if one.http}
    path = _cache(store, scope)
    if known and _read(path) != known:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(known), encoding="utf-8")


def remembered(store: str, scope: str) -> Mapping[str, str]:
    """Member -> its address, as kept last; empty: none is kept."""
    return _read(_cache(store, scope))


def _cache(store: str, scope: str) -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "tenure" / "members"
    return folder / f"{hashlib.sha256(f'{masked(store)} {scope}'.encode()).hexdigest()[:24]}.json"


def _read(path: Path) -> Mapping[str, str]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and all(isinstance(one, str) for one in found.values()):
            return found
    return {}
