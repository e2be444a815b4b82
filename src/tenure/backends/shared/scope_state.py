"""A scope as one object has it: one entry a record, in JSON that people can read, and one entry about the scope.

Promise: pure. `ScopeState.of` reads what `entries` wrote, byte for byte; anything else is CorruptRecord, which names
the object and its entry. Versions are never used twice: they hold the revision, which only grows, and a number drawn at
random, which differs also when the object is made anew or restored from an older copy. The entry about the scope
names the sessions that may own records here. Names of entries are reversible, and names for Kubernetes, too: two keys
never share an entry.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tenure.coordination.encoding import from_text_or_base64, in_base64, text_or_base64
from tenure.coordination.records import (
    Commit,
    Guard,
    Key,
    Listing,
    Put,
    Record,
    Revision,
    Scope,
    SessionId,
    Version,
    Write,
    wanted_version,
)
from tenure.errors import CorruptRecord

FORMAT: Final = 1
_READABLE: Final = 40
"""Characters by which a text may be longer than its base64."""
_DAMAGED: Final = "restore its entries, or remove it and begin a new life of the pipeline"


@dataclass(frozen=True, slots=True)
class ScopeState:
    """A scope at one instant. `origin` empty: there is no object."""

    origin: str = ""
    revision: int = 0
    sessions: frozenset[SessionId] = frozenset()
    """The sessions that may own records here: they lived when they came, and have not been removed since."""
    records: Mapping[Key, Record] = field(default_factory=dict)

    def holds(self, guard: Guard) -> bool:
        """Whether the guard holds now."""
        record = self.records.get(guard.key)
        return (record and record.version) == wanted_version(guard)

    def listing(self, prefix: str = "") -> Listing:
        """The records under a prefix."""
        found = sorted(key for key in self.records if key.is_under(prefix))
        return Listing(tuple(self.records[key] for key in found), Revision(self.revision))

    def applied(self, writes: Sequence[Write], *, joined: frozenset[SessionId] = frozenset()) -> ScopeState:
        """The state after these writes. `joined`: sessions that come with them."""
        origin, revision = self.origin or secrets.token_hex(4), self.revision + 1
        version = Version(f"{origin}-{revision}-{secrets.token_hex(4)}")
        records = dict(self.records)
        for write in writes:
            if isinstance(write, Put):
                records[write.key] = Record(write.key, bytes(write.value), version, write.session)
            else:
                del records[write.key]
        return ScopeState(origin, revision, self.sessions | joined, records)

    def without(self, session: SessionId) -> ScopeState:
        """The state after the end of a session."""
        records = {key: record for key, record in self.records.items() if record.session != session}
        origin = self.origin or secrets.token_hex(4)
        return ScopeState(origin, self.revision + 1, self.sessions - {session}, records)

    def outcome(self, writes: Sequence[Write]) -> Commit:
        """The outcome of writes that led to this state."""
        put = [write.key for write in writes if isinstance(write, Put)]
        return Commit({key: self.records[key].version for key in put}, Revision(self.revision))

    def entries(self, scope: Scope) -> dict[str, str]:
        """The entries of the object, by their names."""
        about = {
            "v": FORMAT,
            "scope": scope,
            "origin": self.origin,
            "revision": self.revision,
            "sessions": sorted(self.sessions),
        }
        return {ABOUT: _json(about), **{entry_name(key): _entry(record) for key, record in self.records.items()}}

    @classmethod
    def of(cls, data: Mapping[str, str], *, scope: Scope, where: str) -> ScopeState:
        """The state that the entries show. `where`: the object, for messages. Raises CorruptRecord."""
        about = _about(data, scope=scope, where=where)
        state = cls(about["origin"], about["revision"], frozenset(map(SessionId, about["sessions"])))
        found = [_record(name, text, where=where) for name, text in data.items() if name != ABOUT]
        for record in found:
            if record.session is not None and record.session not in state.sessions:
                raise _corrupt(where, entry_name(record.key), f"its session {record.session} is not in {ABOUT!r}")
        return replace(state, records={record.key: record for record in found})


def scope_in(data: Mapping[str, str]) -> Scope | None:
    """The scope that the entries name; None: they name none."""
    try:
        about = json.loads(data.get(ABOUT, ""))
    except (ValueError, RecursionError):
        return None
    return Scope.found(about.get("scope")) if isinstance(about, dict) else None


def _about(data: Mapping[str, str], *, scope: Scope, where: str) -> dict[str, Any]:
    found = _parsed(where, ABOUT, data.get(ABOUT, ""))
    kinds = {"v": int, "scope": str, "origin": str, "revision": int, "sessions": list}
    if "v" in found and found["v"] != FORMAT:
        raise CorruptRecord(
            f"{where} has format {found['v']!r}, this version reads {FORMAT}",
            fix="run the version of tenure that wrote it, or a newer one",
        )
    wrong = [name for name, kind in kinds.items() if not isinstance(found.get(name), kind)]
    if wrong:
        raise _corrupt(where, ABOUT, f"field {wrong[0]!r} is not {kinds[wrong[0]].__name__}")
    if found["scope"] != scope:
        raise _corrupt(where, ABOUT, f"it is of scope {found['scope']!r}, not {scope!r}")
    return found


def _entry(record: Record) -> str:
    """An entry. Its value is readable: as JSON if it is JSON in the form that records have, else as text, unless
    JSON makes the text longer than base64 does."""
    fields: dict[str, Any] = {"version": record.version}
    if is_long(entry_name(record.key)):
        fields["key"] = record.key
    if record.session is not None:
        fields["session"] = record.session
    return _json({**fields, **packed(record.value)})


def packed(value: bytes) -> dict[str, Any]:
    """A value as fields of JSON, readable where it can be."""
    try:
        parsed = json.loads(value)
        if isinstance(parsed, dict) and _json(parsed).encode() == value:
            return {"value": parsed}
    except (ValueError, RecursionError):
        pass  # it is no JSON
    fields, encoded = text_or_base64(value), in_base64(value)
    return {"base64": encoded} if len(json.dumps(fields.get("text"))) > len(encoded) + _READABLE else {**fields}


def unpacked(fields: Mapping[str, Any]) -> bytes:
    """The value that `packed` has made fields of. Raises ValueError."""
    match fields:
        case {"value": dict(parsed)}:
            return _json(parsed).encode()
    return from_text_or_base64(fields)


def _record(name: str, text: str, *, where: str) -> Record:
    found = _parsed(where, name, text)
    key = Key.found(found.get("key")) if is_long(name) else key_of(name)
    if key is None or entry_name(key) != name:
        raise _corrupt(where, name, "no key has this name")
    version, session = found.get("version"), found.get("session")
    if not isinstance(version, str) or not isinstance(session, str | None):
        raise _corrupt(where, name, "it has no version, or no right session")
    try:
        value = unpacked(found)
    except ValueError as error:
        raise _corrupt(where, name, str(error)) from error
    return Record(key, value, Version(version), None if session is None else SessionId(session))


def _parsed(where: str, name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _corrupt(where, name, str(error)) from error
    if not isinstance(found, dict):
        raise _corrupt(where, name, "it is no JSON object")
    return found


def _corrupt(where: str, name: str, why: str) -> CorruptRecord:
    return CorruptRecord(f"{where} does not decode: entry {name!r}: {why}", fix=_DAMAGED)


def _json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True)


_ENTRY_MOST: Final = 253
_ESCAPES: Final = {"/": ".", ".": "_.", "_": "__", "=": "_-"}
_UNESCAPES: Final = {".": ".", "_": "_", "-": "="}
_LONG: Final = "_0"
"""Begins the entries of keys that are too long for a name: no escape has this form, and the record says its key."""

ABOUT: Final = "_tenure"
"""The entry about the scope itself: no key has this name, because an underscore begins an escape."""


def entry_name(key: Key) -> str:
    """The name of the entry of a key: `/` is written `.`; `.`, `_` and `=` are written `_.`, `__` and `_-`."""
    name = "".join(_ESCAPES.get(letter, letter) for letter in key)
    return name if len(name) <= _ENTRY_MOST else _LONG + hashlib.sha256(key.encode()).hexdigest()


def is_long(name: str) -> bool:
    """Whether the entry's record says its key."""
    return name.startswith(_LONG)


def key_of(name: str) -> Key | None:
    """The key of an entry with a plain name; None: no key has this name."""
    letters: list[str] = []
    rest = iter(name)
    for letter in rest:
        if letter == "_":
            meant = _UNESCAPES.get(next(rest, ""))
            if meant is None:
                return None
            letters.append(meant)
        else:
            letters.append("/" if letter == "." else letter)
    return Key.found("".join(letters))
