"""Records are JSON with a format version, readable with etcdctl or sqlite3.

Promise: `decode` reads everything that `encode` wrote; anything else is an error that names the record.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from tenure.coordination.records import Record
from tenure.errors import CorruptRecord

FORMAT = 1
_NONE: Final[Mapping[str, type]] = {}


def new_uid() -> str:
    """A unique name. Each write carries a new uid, so that its content proves who wrote it."""
    return uuid.uuid4().hex


def text_or_base64(value: bytes) -> Mapping[str, str]:
    """A value as a field of JSON: `text`, or `base64` where it is no text."""
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": in_base64(value)}


def in_base64(value: bytes) -> str:
    """A value as text."""
    return base64.b64encode(value).decode()


def from_text_or_base64(fields: Mapping[str, Any]) -> bytes:
    """The value of either field. Raises ValueError."""
    match fields:
        case {"text": str(text)}:
            return text.encode()
        case {"base64": str(text)}:
            return base64.b64decode(text, validate=True)
    raise ValueError("it has no value")


def encode(fields: Mapping[str, Any]) -> bytes:
    """The bytes of a record with these fields."""
    return json.dumps({"v": FORMAT, **fields}, separators=(",", ":"), sort_keys=True).encode()


def decode(record: Record, *, fields: Mapping[str, type], optional: Mapping[str, type] = _NONE) -> dict[str, Any]:
    """The fields of a record. Each of `fields` must be there, and they and `optional` must have these types. Raises
    CorruptRecord."""
    try:
        found = json.loads(record.value)
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, and thousands of brackets, too
        raise CorruptRecord(f"record {record.key!r} does not decode: {error}") from error
    if not isinstance(found, dict) or "v" not in found:
        raise CorruptRecord(f"record {record.key!r} does not decode: no format version")
    if found["v"] != FORMAT:
        raise CorruptRecord(
            f"record {record.key!r} has format {found['v']!r}, this version reads {FORMAT}",
            fix="run the version of tenure that wrote it, or a newer one",
        )
    for name, kind in {**fields, **{name: kind for name, kind in optional.items() if name in found}}.items():
        if not isinstance(found.get(name), kind) or (kind is int and isinstance(found[name], bool)):
            raise CorruptRecord(f"record {record.key!r} does not decode: field {name!r} is not {kind.__name__}")
    return found
