"""The encoding of a handle: JSON with a format version; the payload inline, or a pointer to its blob.

Promise: what `encode_handle` wrote, `decode_handle` reads; anything else is CorruptHandle, which names the record. A
payload is the one that was written, inline as in a blob: its checksum is that of its own bytes, however they are told.
Not promised: that of an inline payload which an earlier version wrote, without a checksum.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenure.blobs.store import Blob, is_address
from tenure.coordination.encoding import decode, encode
from tenure.coordination.records import Key, Record, Version
from tenure.errors import CorruptHandle, CorruptRecord


@dataclass(frozen=True, slots=True)
class Handle:
    """A handle as it stands in the store. Exactly one of `inline` and `blob` is there."""

    key: Key
    version: Version
    epoch: int
    """The term that wrote it."""
    inline: bytes | None
    blob: Blob | None

    @property
    def name(self) -> str:
        """Its name in its handle store."""
        return self.key.name


@dataclass(frozen=True, slots=True)
class Lock:
    """A session-bound claim of a reader on a handle; `handle` is what it protects."""

    key: Key
    version: Version
    handle: Handle


def encode_handle(*, uid: str, epoch: int, content: bytes | Blob) -> bytes:
    """The bytes of the record; `uid` is unique to the write, so that its content proves who wrote it."""
    fields: dict[str, object] = {"uid": uid, "epoch": epoch}
    if isinstance(content, Blob):
        fields["blob"] = {"address": content.address, "size": content.size, "sha256": content.sha256}
    else:
        fields |= {"inline": base64.b64encode(content).decode(), "sha256": _checksum(content)}
    return encode(fields)


def decode_handle(record: Record) -> Handle:
    """The handle in a record. Raises CorruptHandle."""
    try:
        found = decode(record, fields={"uid": str, "epoch": int})
        inline = found.get("inline")
        blob = found.get("blob")
        if (inline is None) == (blob is None):
            raise ValueError("it needs exactly one of 'inline' and 'blob'")
        payload = None if inline is None else base64.b64decode(inline, validate=True)
        if payload is not None and found.get("sha256", _checksum(payload)) != _checksum(payload):
            raise ValueError(f"its payload of {len(payload)} bytes has a checksum that it does not name")
        return Handle(
            key=record.key,
            version=record.version,
            epoch=found["epoch"],
            inline=payload,
            blob=None if blob is None else _blob_of(blob),
        )
    except CorruptRecord as error:
        raise CorruptHandle(error.what, fix=error.fix) from error
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise CorruptHandle(f"handle {record.key!r} does not decode: {error}") from error


def _blob_of(found: Mapping[str, Any]) -> Blob:
    address = str(found["address"])
    if not is_address(address):
        raise ValueError(f"it names blob {address!r}, which is not a relative path of names")
    return Blob(address, int(found["size"]), str(found["sha256"]))


def _checksum(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
