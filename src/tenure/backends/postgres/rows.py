"""The records of the contract as rows of the database, and as values of its statements.

Promise: pure. A version is the origin of the database and the revision of the commit that wrote the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tenure.backends.postgres.connection import Row
from tenure.backends.postgres.liveness import HeldSession
from tenure.coordination.records import (
    Delete,
    Guard,
    Key,
    Put,
    Record,
    Revision,
    Scope,
    SessionId,
    Version,
    Write,
    wanted_version,
)

LARGEST_STEP: Final = 1 << 28
"""Revisions grow by random steps: after a failover that lost commits, or in a restored database, a revision names no
state that was lost."""

_NO_REVISION: Final = -1
"""Of a version that this database has never given: no record has it."""


def text_of(value: bytes | None) -> str:
    """The text of a column that is never null."""
    return (value or b"").decode()


def version_of(origin: str, revision: int) -> Version:
    """The version of what a commit wrote."""
    return Version(f"{origin}-{revision}")


def record_of(row: Row, *, origin: str) -> Record | None:
    """The record of a row: key, value, revision, session; None: the key is another program's."""
    key, value, revision, session = row
    found = Key.found(key)
    if found is None:
        return None
    content = bytes.fromhex(text_of(value).removeprefix("\\x"))
    bound = None if session is None else SessionId(session.decode())
    return Record(found, content, version_of(origin, int(text_of(revision))), bound)


def session_of(row: Row) -> HeldSession:
    """The session of a row: id, ttl, renewals, home, whether its lock is held."""
    session, ttl_us, renewals, home, held = map(text_of, row)
    return HeldSession(SessionId(session), int(ttl_us) / 1_000_000, int(renewals), home, held == "t")


def parsed(payload: str) -> tuple[Scope, Revision] | None:
    """The scope and the revision of an announcement; None: it is another program's."""
    name, _, number = payload.rpartition(" ")
    scope = Scope.found(name)
    return None if scope is None or not number.isdigit() else (scope, Revision(int(number)))


def commit_values(judged: Sequence[Guard], writes: Sequence[Write], *, origin: str) -> dict[str, Any]:
    """The values of a commit. `judged`: its guards, and those of its writes, in their order."""
    puts = [write for write in writes if isinstance(write, Put)]
    return {
        "keys": [str(guard.key) for guard in judged],
        "wanted": [_wanted(guard, origin) for guard in judged],
        "writes": bool(writes),
        "bound": list(dict.fromkeys(str(put.session) for put in puts if put.session is not None)),
        "gone": [str(write.key) for write in writes if isinstance(write, Delete)],
        "put": [str(put.key) for put in puts],
        "values": [bytes(put.value) for put in puts],
        "sessions": [None if put.session is None else str(put.session) for put in puts],
    }


def _wanted(guard: Guard, origin: str) -> int | None:
    """The revision that the record must have; None: there must be no record."""
    version = wanted_version(guard)
    if version is None:
        return None
    of, _, revision = version.rpartition("-")
    return int(revision) if of == origin and revision.isdigit() and len(revision) < 19 else _NO_REVISION
