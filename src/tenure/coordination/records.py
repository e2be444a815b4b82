"""The words of the store's contract: scope, key, record, version, guard, write, commit.

Promise: frozen values without I/O, checked when they are made. Keys are names without parents: a
listing takes those with a common prefix, and nothing else rests on their `/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType

from tenure.errors import UsageError

_SEGMENT = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9._=-]{0,127}\Z")

Version = NewType("Version", str)
"""Names one state of one record. Opaque, compared by equality only. Never reused for the same key (unless
`Guarantees.versions_survive_deletion` is false)."""

SessionId = NewType("SessionId", str)
"""Names a session; never reused."""

Revision = NewType("Revision", int)
"""Counts the commits of a scope as the store saw them; only grows; 0 = before the first."""


class Scope(str):
    """The unit of atomic change, one a pipeline. One path segment: letters, digits, `.`, `_`, `=`, `-`."""

    __slots__ = ()

    def __new__(cls, name: str) -> Scope:
        if not _SEGMENT.match(name):
            fix = "use letters, digits, '.', '_', '-'; at most 128 characters"
            raise UsageError(f"scope {name!r} is not a name", fix=fix)
        return super().__new__(cls, name)

    @classmethod
    def found(cls, name: object) -> Scope | None:
        """The scope of a name in a store; None: the name is no scope, so another program has put it there."""
        text = name.decode(errors="replace") if isinstance(name, bytes) else name
        return cls(text) if isinstance(text, str) and _SEGMENT.match(text) else None


class Key(str):
    """Names a record in its scope: segments joined by `/`, for example `checkpoints/hourly/000000000012`."""

    __slots__ = ()

    def __new__(cls, path: str) -> Key:
        if not all(_SEGMENT.match(segment) for segment in path.split("/")):
            raise UsageError(f"key {path!r} is not a path of names", fix="use letters, digits, '.', '_', '=', '-'")
        return super().__new__(cls, path)

    @classmethod
    def found(cls, path: object) -> Key | None:
        """The key of a name in a store; None: the name is no key, so another program has put it there."""
        text = path.decode(errors="replace") if isinstance(path, bytes) else path
        return cls(text) if isinstance(text, str) and all(map(_SEGMENT.match, text.split("/"))) else None

    def child(self, name: str) -> Key:
        """The key of the record `name` under this key."""
        return Key(f"{self}/{name}")

    @property
    def name(self) -> str:
        """The last segment."""
        return self.rsplit("/", 1)[-1]

    def is_under(self, prefix: str) -> bool:
        """Whether this key lies strictly below `prefix`; every key lies below the empty prefix."""
        return not prefix or self.startswith(prefix + "/")


@dataclass(frozen=True, slots=True)
class Record:
    """One key and its small value in a scope, as it was at one instant. `session` None: not bound to one."""

    key: Key
    value: bytes
    version: Version
    session: SessionId | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The records under a prefix in the order of their keys, at one instant (or what the guarantees declare)."""

    records: tuple[Record, ...]
    revision: Revision


@dataclass(frozen=True, slots=True)
class Exact:
    """Holds while the record at `key` has exactly this version."""

    key: Key
    version: Version


@dataclass(frozen=True, slots=True)
class Absent:
    """Holds while there is no record at `key`."""

    key: Key


Guard = Exact | Absent


def wanted_version(guard: Guard) -> Version | None:
    """The version of the record at the guard's key while the guard holds; None: there must be no record."""
    return guard.version if isinstance(guard, Exact) else None


@dataclass(frozen=True, slots=True)
class Put:
    """Write `value` at `key`. `replaces`: the version that is replaced; None: there must be no record. `session`: the
    record vanishes when that session ends; None: the record is permanent, also where it replaces a bound record."""

    key: Key
    value: bytes
    replaces: Version | None
    session: SessionId | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the record at `key`, which must have the version `replaces`, and no other record."""

    key: Key
    replaces: Version


Write = Put | Delete


def implied_guard(write: Write) -> Guard:
    """The guard that a write carries by itself: the version that it replaces, or absent."""
    return Absent(write.key) if write.replaces is None else Exact(write.key, write.replaces)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that happened: the new version of each record put, and the scope's revision after it."""

    versions: Mapping[Key, Version]
    revision: Revision
