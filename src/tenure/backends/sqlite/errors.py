"""The outcome of a write that ended in an error of SQLite: one table.

Promise: pure. An error outside COMMIT is definite, because the transaction is rolled back. Errors that only a bug can
cause (bad SQL, misuse) are not translated.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tenure.errors import Corrupt, OutcomeUnknown, StoreUnavailable, TenureError

_UNAVAILABLE: dict[int, tuple[str, str | None]] = {
    sqlite3.SQLITE_BUSY: (
        "stayed locked by another process for longer than the busy timeout",
        "look for a stopped or stuck process that has it open",
    ),
    sqlite3.SQLITE_LOCKED: ("is locked", None),
    sqlite3.SQLITE_FULL: ("cannot grow: the disk is full", "free some space"),
    sqlite3.SQLITE_READONLY: ("is read-only", "make the file and its directory writable for this user"),
    sqlite3.SQLITE_PERM: ("may not be opened by this user", "make the file and its directory writable for this user"),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "check that its directory exists and is writable for this user"),
    sqlite3.SQLITE_IOERR: ("cannot be read or written: the disk reports an error", "check the disk"),
    sqlite3.SQLITE_NOLFS: ("is too large for its file system", None),
    sqlite3.SQLITE_NOMEM: ("cannot be used: out of memory", None),
    sqlite3.SQLITE_PROTOCOL: ("cannot be used: its locks are contended", "try again"),
    sqlite3.SQLITE_INTERRUPT: ("was interrupted", "try again"),
    sqlite3.SQLITE_SCHEMA: ("was changed by another process", "try again"),
}
_CORRUPT: dict[int, str] = {sqlite3.SQLITE_NOTADB: "is not a SQLite database", sqlite3.SQLITE_CORRUPT: "is damaged"}


def nothing_written(error: sqlite3.Error, path: Path) -> TenureError | None:
    """The error to raise when nothing was written; None: only a bug can cause `error`."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte names the kind, the rest the detail
    if code in _CORRUPT:
        return Corrupt(f"store {path} {_CORRUPT[code]}", fix="give another path, or restore the file from a backup")
    if code in _UNAVAILABLE:
        what, fix = _UNAVAILABLE[code]
        return StoreUnavailable(f"store {path} {what} ({error})", fix=fix)
    return None


def maybe_written(error: sqlite3.Error, path: Path) -> OutcomeUnknown:
    """The error for a COMMIT that failed and left no open transaction: the log may hold the commit, or not."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    _, fix = _UNAVAILABLE.get(code, ("", None))
    return OutcomeUnknown(f"commit to store {path} failed halfway ({error})", fix=fix or "check the disk")
