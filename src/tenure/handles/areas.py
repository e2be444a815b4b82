"""The names that users give: areas of handles, handles and records, apart from the records of Tenure itself.

Promise: an area of a user lies below `handles`, a record of a user below `records`, and no record of Tenure lies
there. So a user may give any name. A name is one segment of a key: letters, digits, `.`, `_`, `=`, `-`, at most 128
characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tenure.coordination.records import Key, Record, Scope
from tenure.errors import UsageError

HANDLES: Final = Key("handles")
"""Under it one area of handles for each name that a user gave."""

RECORDS: Final = Key("records")
"""The area of the small records of users."""


def area_of(name: str) -> Key:
    """The key of a user's area. Raises UsageError: it is not a name."""
    return HANDLES.child(checked_name(name, of="area"))


def checked_name(name: str, *, of: str) -> str:
    """The name of a user's area, handle or record. Raises UsageError: it is not a name."""
    if not isinstance(name, str) or Scope.found(name) is None:  # one segment of a key, too
        fix = "use letters, digits, '.', '_', '-'; at most 128 characters"
        raise UsageError(f"{of} {name!r} is not a name", fix=fix)
    return name


def checked_payload(payload: bytes, *, of: str) -> bytes:
    """The payload of a user's handle or record. Raises UsageError: it is not bytes."""
    if not isinstance(payload, bytes):
        raise UsageError(f"the payload of {of} is a {type(payload).__name__}", fix="give bytes")
    return payload


def handles_in(records: Iterable[Record], root: Key = HANDLES) -> list[Record]:
    """The handles in the areas below `root`, among the records of a scope."""
    return [record for record in records if record.key.is_under(root) and record.key.count("/") == 2]


def records_in(records: Sequence[Record]) -> list[Record]:
    """The records of users among the records of a scope."""
    return [record for record in records if record.key.is_under(RECORDS) and record.key.count("/") == 1]


def is_anchor(key: Key, root: Key = HANDLES) -> bool:
    """Whether it is the key of the anchor of an area below `root`, or of the records of users."""
    return key == RECORDS or (key.is_under(root) and key.count("/") == 1)
