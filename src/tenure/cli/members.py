"""The members' own answers over HTTP: `/status`, for when their store is away, and `/events`.

Promise: only addresses are asked that members announced (`addresses.py`) or that the user gives. A member that does not
answer within two seconds is shown so. Nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from typing import Any, Final
from urllib.request import urlopen

from tenure.wording import masked

_TIMEOUT_S: Final = 2.0
_AT_ONCE: Final = 16
_MOST: Final = 65536
"""Bytes of an answer that are read."""
_MOST_EVENTS: Final = 64 << 20
"""The same, of all events that a member keeps: 2,000, with whole errors."""


def ask_all(addresses: Mapping[str, str]) -> Sequence[dict[str, Any]]:
    """What each member says of itself. A member that does not answer has its `trouble` alone."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tenure-ask") as pool:
        return list(pool.map(partial(_ask), addresses, addresses.values()))


def events_of_all(asked: Mapping[str, tuple[str, int]]) -> Mapping[str, list[dict[str, Any]] | str]:
    """Member -> its events after a number, oldest first; or why it does not answer. `asked`: member -> its address, and
    the number."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tenure-ask") as pool:
        return dict(zip(asked, pool.map(lambda one: _events_of(*one), asked.values()), strict=True))


def _events_of(address: str, after: int) -> list[dict[str, Any]] | str:
    try:
        text = _get(address, f"/events?after={after}", most=_MOST_EVENTS).decode()
        found = [json.loads(line) for line in text.splitlines()]
        if not all(isinstance(one, dict) and {"at", "number", "event"} <= one.keys() for one in found):
            raise ValueError("it is no member's answer")
    except (OSError, ValueError, HTTPException) as error:
        return masked(str(error))
    return found


def _get(address: str, path: str, *, most: int) -> bytes:
    url = address if "://" in address else f"http://{address}"
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{address} is no address of HTTP")
    with urlopen(f"{url}{path}", timeout=_TIMEOUT_S) as answer:
        return bytes(answer.read(most))


def _ask(member: str, address: str) -> dict[str, Any]:
    try:
        found = json.loads(_get(address, "/status", most=_MOST))
        if not isinstance(found, dict) or "state" not in found:
            raise ValueError("it is no member's answer")
    except (OSError, ValueError, HTTPException) as error:
        return {"member": member, "address": address, "trouble": masked(str(error))}
    return {**found, "address": address, "trouble": None}
