"""A place of the storage, reached: the file system behind a URL, and what fails there.

Promise: on a local disk and on S3 `errors` are all that the file system raises for a storage that does not do what it
is asked to: s3fs lets botocore's and aiohttp's errors through when a server cannot be reached, or breaks off. There
listings are never taken from a client's cache, which would hide what another process has written since. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import fsspec
from fsspec.implementations.local import LocalFileSystem

from tenure.errors import UsageError

_OBJECT_STORES: Final = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "memory"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a URL points to."""

    fs: Any
    """fsspec's."""
    root: str
    """The path that `fs` knows it by, without a `/` at its end."""
    is_local: bool
    is_s3: bool
    """Whether `fs` is s3fs."""
    errors: tuple[type[Exception], ...]
    """What fails there; FileNotFoundError and its like among them."""
    is_hdfs: bool = False
    """Whether `fs` is that of hdfs-native."""


def reach(url: str, *, options: Mapping[str, Any] | None = None, what: str = "storage") -> Place:
    """The place behind a URL or a local path. `options`: fsspec's. `what`: how the error names it.

    Raises UsageError: a scheme that nobody knows, or whose package is not installed.
    """
    if url.split(":", 1)[0] == "hdfs":
        return _hdfs(url, what=what)
    # Those file systems that would keep listings; to others the option may be none.
    uncached = {"use_listings_cache": False} if url.split(":", 1)[0] in _OBJECT_STORES else {}
    try:
        fs, root = fsspec.core.url_to_fs(url, **{**uncached, **(options or {})})
    except ImportError as error:
        fix = "pip install 'tenure[s3]'" if url.startswith("s3") else "install the package that it names"
        raise UsageError(f"{what} {url!r} cannot be used: {error}", fix=fix) from error
    except ValueError as error:
        raise UsageError(f"{what} {url!r} cannot be used: {error}", fix="use file:///path or s3://...") from error
    is_s3 = hasattr(fs, "call_s3")
    return Place(fs, root.rstrip("/"), isinstance(fs, LocalFileSystem), is_s3, _s3_errors() if is_s3 else (OSError,))


def _hdfs(url: str, *, what: str) -> Place:
    """fsspec itself would take pyarrow's client, which needs Hadoop's native library on the machine."""
    try:
        from tenure.storage.hdfs import Hdfs
    except ImportError as error:
        raise UsageError(f"{what} {url!r} cannot be used: {error}", fix="pip install 'tenure[hdfs]'") from error
    authority, _, path = url.removeprefix("hdfs://").partition("/")
    host, _, port = authority.partition(":")  # a nameservice may have capitals, which urllib would make small
    try:
        fs = Hdfs(host=host or None, port=int(port) if port else None)
    except (ValueError, OSError, RuntimeError) as error:
        raise UsageError(
            f"{what} {url!r} cannot be used: {told(error)}", fix="use hdfs://namenode:8020/path"
        ) from error
    return Place(fs, f"/{path}".rstrip("/"), is_local=False, is_s3=False, errors=(OSError, RuntimeError), is_hdfs=True)


def _s3_errors() -> tuple[type[Exception], ...]:
    """s3fs makes an OSError of what the server answers, and nothing of what keeps it from answering."""
    from botocore.exceptions import BotoCoreError
    from s3fs.core import S3_RETRYABLE_ERRORS

    return (OSError, BotoCoreError, *S3_RETRYABLE_ERRORS)


def told(error: Exception) -> str:
    """What an error of a place says, without Python's numbers, and without the stack of a server."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error).split("\n", 1)[0]


def number_of(error: Exception) -> int | None:
    """Its errno, if it has one."""
    return error.errno if isinstance(error, OSError) else None
