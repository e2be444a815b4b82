"""The records of the contract as rows of the database.

Promise: every function works inside the caller's transaction, and neither begins nor ends a transaction. A version is
the database's origin and the revision of the commit that wrote the record.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, Final

from tenure.backends.shared.renewals import SessionRow
from tenure.coordination.records import (
    Commit,
    Guard,
    Key,
    Put,
    Record,
    Revision,
    Scope,
    SessionId,
    Version,
    Write,
    implied_guard,
    wanted_version,
)
from tenure.errors import GuardFailed, SessionEnded

_COLUMNS = "key, value, revision, session"
_LARGEST_STEP: Final = 1 << 28
"""Revisions grow by random steps: in a database that was restored from an older copy, or that lost its log, a revision
names no state that was lost. Room for 60 billion commits a scope."""


class Rows:
    """The rows of one database, named by its origin."""

    def __init__(self, connection: sqlite3.Connection, *, origin: str) -> None:
        self._connection = connection
        self._origin = origin

    def revision(self, scope: Scope) -> Revision:
        row = self._connection.execute("SELECT revision FROM scopes WHERE name = ?", (scope,)).fetchone()
        return Revision(0 if row is None else row[0])

    def read(self, scope: Scope, key: Key) -> Record | None:
        row = self._connection.execute(
            f"SELECT {_COLUMNS} FROM records WHERE scope = ? AND key = ?", (scope, key)
        ).fetchone()
        return None if row is None else self._record(row)

    def list(self, scope: Scope, prefix: str) -> list[Record]:
        query = f"SELECT {_COLUMNS} FROM records WHERE scope = ?"
        if not prefix:
            rows = self._connection.execute(f"{query} ORDER BY key", (scope,))
        else:
            rows = self._connection.execute(f"{query} AND key > ? AND key < ? ORDER BY key", (scope, *_below(prefix)))
        return [self._record(row) for row in rows if Key.found(row[0]) is not None]

    def scopes(self) -> Sequence[Scope]:
        rows = self._connection.execute("SELECT DISTINCT scope FROM records ORDER BY scope")
        return [scope for (name,) in rows if (scope := Scope.found(name)) is not None]

    def refusal(
        self, scope: Scope, guards: Sequence[Guard], writes: Sequence[Write]
    ) -> GuardFailed | SessionEnded | None:
        """The first reason to refuse the commit: guards, the replaced versions, then the sessions of the writes."""
        for guard in (*guards, *map(implied_guard, writes)):
            if not self._holds(scope, guard):
                return GuardFailed(guard, scope=scope)
        for session in dict.fromkeys(write.session for write in writes if isinstance(write, Put)):
            if session is not None and not self._lives(session):
                return SessionEnded(session)
        return None

    def apply(self, scope: Scope, writes: Sequence[Write]) -> Commit:
        """Make the writes, which `refusal` has judged in this transaction."""
        if not writes:
            return Commit({}, self.revision(scope))
        revision = self._bump(scope)
        versions: dict[Key, Version] = {}
        for write in writes:
            if isinstance(write, Put):
                self._connection.execute(
                    f"INSERT OR REPLACE INTO records (scope, {_COLUMNS}) VALUES (?, ?, ?, ?, ?)",
                    (scope, write.key, write.value, revision, write.session),
                )
                versions[write.key] = self._version(revision)
            else:
                self._connection.execute("DELETE FROM records WHERE scope = ? AND key = ?", (scope, write.key))
        return Commit(versions, revision)

    def sessions(self, scope: Scope | None = None) -> Sequence[SessionRow]:
        """The sessions with a record in the scope; None: all sessions."""
        if scope is None:
            return self._sessions("SELECT id, ttl_us, renewals FROM sessions", ())
        bound = "SELECT session FROM records WHERE scope = ? AND session IS NOT NULL"
        return self._sessions(f"SELECT id, ttl_us, renewals FROM sessions WHERE id IN ({bound})", (scope,))

    def sessions_named(self, names: Collection[SessionId]) -> Sequence[SessionRow]:
        """Those of the named sessions that have a row."""
        marks = ", ".join("?" for _ in names)
        return self._sessions(f"SELECT id, ttl_us, renewals FROM sessions WHERE id IN ({marks})", names)

    def _sessions(self, query: str, values: Collection[str]) -> Sequence[SessionRow]:
        rows = self._connection.execute(query, tuple(values))
        return [SessionRow(SessionId(session), ttl_us / 1_000_000, renewals) for session, ttl_us, renewals in rows]

    def end_session(self, session: SessionId, *, renewals: int | None = None) -> bool:
        """Delete the session and its records; False: there was no session, or it has renewed more often than
        `renewals`."""
        query = "DELETE FROM sessions WHERE id = ? AND renewals = ifnull(?, renewals)"
        if not self._connection.execute(query, (session, renewals)).rowcount:
            return False
        scopes = self._connection.execute("SELECT DISTINCT scope FROM records WHERE session = ?", (session,)).fetchall()
        self._connection.execute("DELETE FROM records WHERE session = ?", (session,))
        for (scope,) in scopes:
            self._bump(scope)
        return True

    def _bump(self, scope: str) -> Revision:
        step = 1 + secrets.randbelow(_LARGEST_STEP)
        row = self._connection.execute(
            "INSERT INTO scopes VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET revision = revision + excluded.revision RETURNING revision",
            (scope, step),
        ).fetchone()
        return Revision(row[0])

    def _holds(self, scope: Scope, guard: Guard) -> bool:
        row = self._connection.execute(
            "SELECT revision FROM records WHERE scope = ? AND key = ?", (scope, guard.key)
        ).fetchone()
        version = None if row is None else self._version(row[0])
        return version == wanted_version(guard)

    def _lives(self, session: SessionId) -> bool:
        return self._connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)).fetchone() is not None

    def _version(self, revision: int) -> Version:
        return Version(f"{self._origin}-{revision}")

    def _record(self, row: tuple[Any, ...]) -> Record:
        key, value, revision, session = row
        value = value if isinstance(value, bytes) else str(value).encode()  # a value that was typed in may be no blob
        return Record(Key(key), value, self._version(revision), None if session is None else SessionId(session))


def _below(prefix: str) -> tuple[str, str]:
    """The open range of the keys strictly below `prefix`; '0' is the character after '/'."""
    return f"{prefix}/", f"{prefix}0"
