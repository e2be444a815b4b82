"""The encoding of a handle: JSON with a format version; the payload inline, or a pointer to its blob.

Promise: `decode_handle` reads the records of `encode_handle`; any other record is CorruptHandle, which names it. The
checksum covers the payload's own bytes, inline as in a blob. People can read an inline payload, for example by
`etcdctl get`: it stands in the record as a JSON value, else as text, and in base64 only when it is neither.
"""

from __future__ import annotations

import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenure.coordination.encoding import decode, encode, from_text_or_base64, text_or_base64, typed
from tenure.coordination.records import Key, Record, Version
from tenure.errors import CorruptHandle, CorruptRecord
from tenure.storage.blobs import Blob
from tenure.storage.names import is_relative


@dataclass(frozen=True, slots=True)
class Handle:
    """A name in the store for bytes that a leader wrote. Exactly one of `inline` and `blob` is not None."""

    key: Key
    """The key of its record in the scope: the area and the name."""
    version: Version
    """The version of its record. Another payload has another version."""
    epoch: int
    """The number of the term that wrote it."""
    inline: bytes | None
    """The payload, if it is small enough for the record (4 KiB, the setting `inline_limit`)."""
    blob: Blob | None
    """The address in the storage, the size in bytes and the checksum (SHA-256) of a larger payload."""

    @property
    def name(self) -> str:
        """The name in its handle store."""
        return self.key.name

    @property
    def size(self) -> int:
        """The size of the payload in bytes."""
        return len(self.inline or b"") if self.blob is None else self.blob.size


@dataclass(frozen=True, slots=True)
class Lock:
    """A session-bound claim of a reader on a handle."""

    key: Key
    version: Version
    handle: Handle


def encode_handle(*, uid: str, epoch: int, content: bytes | Blob) -> bytes:
    """The bytes of the record. `uid`: unique to the write, so that the record proves which write made it."""
    fields: dict[str, object] = {"uid": uid, "epoch": epoch}
    if isinstance(content, Blob):
        fields["blob"] = {"address": content.address, "size": content.size, "sha256": content.sha256}
    else:
        fields |= {**_readable(content), "sha256": _checksum(content)}
    return encode(fields)


def decode_handle(record: Record) -> Handle:
    """The handle in a record. Raises CorruptHandle."""
    try:
        found = decode(record, fields={"uid": str, "epoch": int})
        forms = [form for form in (*_INLINE, "blob") if form in found]
        if len(forms) != 1:
            raise ValueError(f"it needs exactly one of {', '.join(_INLINE)} and blob")
        inline = None if forms == ["blob"] else _payload(found)
        if inline is not None and found["sha256"] != _checksum(inline):
            raise ValueError(f"its payload of {len(inline)} bytes has a checksum other than the recorded checksum")
        return Handle(
            key=record.key,
            version=record.version,
            epoch=found["epoch"],
            inline=inline,
            blob=_blob_of(found) if inline is None else None,
        )
    except CorruptRecord as error:
        raise CorruptHandle(error.what, fix=error.fix) from error
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise CorruptHandle(f"handle {record.key!r} does not decode: {error}") from error


def _readable(payload: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(payload, parse_constant=_no_json)
        if _dumped(value) == payload:
            return {"json": value}
    except (ValueError, RecursionError):
        pass  # not JSON, or not as `_dumped` writes it
    return text_or_base64(payload)


def _payload(found: Mapping[str, Any]) -> bytes:
    return _dumped(found["json"]) if "json" in found else from_text_or_base64(found)


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


_INLINE: Final = ("json", "text", "base64")
"""The forms of a payload in its record."""


def _blob_of(found: Mapping[str, Any]) -> Blob:
    blob: Blob = typed(Blob, found["blob"], "blob")
    if not is_relative(blob.address):
        raise ValueError(f"it names blob {blob.address!r}, which is not a relative path of names")
    return blob


def _checksum(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
