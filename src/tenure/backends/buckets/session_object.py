"""A session as its object has it.

Promise: pure. Each change makes another text, so another tag. An ended session never lives again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from tenure.coordination.records import Scope
from tenure.errors import CorruptRecord

FORMAT: Final = 1
_KINDS: Final = {"v": int, "ttl_ms": int, "renewals": int, "ended": bool, "scopes": list}

Json = dict[str, Any]


def new_session(*, ttl: timedelta, purpose: str) -> Json:
    """A session that begins. `purpose`: for people who read the object."""
    ttl_ms = max(1, ttl // timedelta(milliseconds=1))
    return {"v": FORMAT, "purpose": purpose, "ttl_ms": ttl_ms, "renewals": 0, "ended": False, "scopes": []}


def renewed(data: Json) -> Json:
    """The session after a renewal."""
    return {**data, "renewals": data["renewals"] + 1}


def with_scope(data: Json, scope: Scope) -> Json:
    """The session that may own records in one more scope."""
    return renewed({**data, "scopes": sorted({*data["scopes"], str(scope)})})


def ended(data: Json) -> Json:
    """The session when it has ended."""
    return {**data, "ended": True}


def scopes_of(data: Json) -> list[Scope]:
    """The scopes in which the session may own records."""
    return [scope for name in data["scopes"] if (scope := Scope.found(name)) is not None]


def ttl_s(data: Json) -> float:
    """The time to live, in seconds."""
    return float(data["ttl_ms"]) / 1000


def checked(data: Mapping[str, Any], *, where: str) -> Json:
    """The data of an object, as they were written here. Raises CorruptRecord."""
    wrong = [name for name, kind in _KINDS.items() if not isinstance(data.get(name), kind)]
    if wrong or data["v"] != FORMAT:
        raise CorruptRecord(
            f"{where} is no session: field {(wrong or ['v'])[0]!r} is not as it was written",
            fix="remove the object: the session ends, and its member joins again",
        )
    return dict(data)
