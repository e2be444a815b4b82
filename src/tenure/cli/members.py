"""What members know of a pipeline while its store is away: their own `/status`, asked over HTTP.

Promise: only addresses are asked that members announced, as this user's last look at the store saw them, or that the
user gives. A member that does not answer within two seconds is shown so. Nothing is written but the cache of addresses,
below `XDG_CACHE_HOME`; without it, the command works, and knows no addresses.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from tenure.coordination.candidates import Candidate
from tenure.wording import masked

_TIMEOUT_S: Final = 2.0
_AT_ONCE: Final = 16
_MOST: Final = 65536
"""Bytes of an answer that are read."""


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


def ask_all(addresses: Mapping[str, str]) -> Sequence[dict[str, Any]]:
    """What each member says of itself. A member that does not answer has its `trouble` alone."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tenure-ask") as pool:
        return list(pool.map(partial(_ask), addresses, addresses.values()))


def _ask(member: str, address: str) -> dict[str, Any]:
    url = f"{address if '://' in address else f'http://{address}'}/status"
    try:
        with urlopen(url, timeout=_TIMEOUT_S) as answer:
            found = json.loads(answer.read(_MOST))
        if not isinstance(found, dict) or "state" not in found:
            raise ValueError("it is no member's answer")
    except (OSError, ValueError, HTTPException) as error:
        return {"member": member, "address": address, "trouble": masked(str(error))}
    return {**found, "address": address, "trouble": None}


def _cache(store: str, scope: str) -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "tenure" / "members"
    return folder / f"{hashlib.sha256(f'{masked(store)} {scope}'.encode()).hexdigest()[:24]}.json"


def _read(path: Path) -> Mapping[str, str]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and all(isinstance(one, str) for one in found.values()):
            return found
    return {}
