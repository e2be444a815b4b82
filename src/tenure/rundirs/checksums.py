"""The checksums that stand beside the files of a run directory. Pure.

Spark 4.1 and newer put `NAME.crc` beside a state file: JSON with the size, and the CRC-32C of all bytes. Hadoop puts
`.NAME.crc` beside each file that it writes on a local disk: the CRC-32 of each part of the file. Promise: `wrong_in`
calls bytes wrong that Spark refuses for such a file. Hadoop passes over a checksum file of its own that is none.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Final

_HEAD: Final = struct.Struct(">4sI")
_MAGIC: Final = b"crc\0"
_SPARKS: Final = "CRC32C"
_POLYNOMIAL: Final = 0x82F63B78
_ALL: Final = 0xFFFFFFFF


def checksum_names(name: str) -> tuple[str, str]:
    """The names of the checksum files that may stand beside a file: Spark's, Hadoop's."""
    return f"{name}.crc", f".{name}.crc"


def wrong_in(data: bytes, *, sparks: bytes | None = None, hadoops: bytes | None = None) -> str | None:
    """The fault of the bytes of a file; None: there is none. `sparks`, `hadoops`: the content of its checksum files;
    None: there is no such file."""
    wrong = None if sparks is None else _wrong_for_spark(data, sparks)
    return wrong if wrong is not None or hadoops is None else _wrong_for_hadoop(data, hadoops)


def _wrong_for_spark(data: bytes, recorded: bytes) -> str | None:
    try:
        fields = json.loads(recorded)
        algorithm, value, size = fields["algorithm"], int(fields["value"]), int(fields["mainFileSize"])
    except (ValueError, KeyError, TypeError):
        return "has a checksum file of Spark that does not decode"
    if size != len(data):
        return f"has {len(data)} bytes instead of {size}"
    if algorithm == _SPARKS and value & _ALL != crc32c(data):
        return "has other bytes than its checksum by Spark"
    return None


def _wrong_for_hadoop(data: bytes, recorded: bytes) -> str | None:
    magic, part = _HEAD.unpack_from(recorded.ljust(_HEAD.size, b"\0"))
    count, rest = divmod(len(recorded) - _HEAD.size, 4)
    if magic != _MAGIC or part == 0 or count < 0 or rest:
        return None
    sums = struct.unpack_from(f">{count}I", recorded, _HEAD.size)
    if sums != tuple(zlib.crc32(data[first : first + part]) for first in range(0, len(data), part)):
        return "has other bytes than its checksum by Hadoop"
    return None


def crc32c(data: bytes) -> int:
    """The CRC-32C of bytes: some ten megabytes a second."""
    table, crc = _TABLE, _ALL
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ _ALL


def _entry(number: int) -> int:
    for _ in range(8):
        number = (number >> 1) ^ (_POLYNOMIAL if number & 1 else 0)
    return number


_TABLE: Final = tuple(map(_entry, range(256)))
