"""URLs of folders, in the spelling of each reader.

Promise: no I/O, and no client.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import unquote, urlsplit

from tenure.errors import UsageError

_SAME: Final = {"s3a": "s3", "s3n": "s3"}
"""Schemes that mean the same storage."""
_HADOOPS: Final = {"s3": "s3a"}
"""Scheme -> Hadoop's spelling, where that differs."""


def normal_url(url: str) -> str:
    """The URL or path of a folder in the spelling for comparisons: `s3a` is `s3`, `file:/x` is `/x`. Raises UsageError:
    the path is relative, or climbs."""
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme:
        scheme, rest = "file", url
    path = rest.rstrip("/")
    if scheme == "file":
        path = "/" + path.lstrip("/") if path.startswith("/") else path
        if not path.startswith("/"):
            raise UsageError(f"{url!r} is a relative path", fix="give an absolute path")
    if any(part in (".", "..") for part in path.split("/")):
        raise UsageError(f"{url!r} climbs in its own path", fix="give the path without . and ..")
    return path if scheme == "file" else f"{_SAME.get(scheme, scheme)}:{path}"


def path_on_disk(path_or_url: str) -> str | None:
    """The absolute path of a folder on a local disk; None: the URL of another kind of storage."""
    if path_or_url.startswith("file:"):
        return os.path.abspath(unquote(urlsplit(path_or_url).path))
    return None if "://" in path_or_url else os.path.abspath(path_or_url)


def one_spelling(url: str) -> str:
    """The URL with our scheme for its storage; a path as it is."""
    scheme, separator, rest = url.partition("://")
    return f"{_SAME.get(scheme, scheme)}://{rest}" if separator else url


def spark_url(path_or_url: str) -> str:
    """The URL of a folder with Hadoop's scheme; a path, or a URL of another scheme, as it is."""
    scheme, separator, rest = one_spelling(path_or_url).partition("://")
    return f"{_HADOOPS[scheme]}://{rest}" if separator and scheme in _HADOOPS else path_or_url


def hadoop_url(path_or_url: str) -> str:
    """The URL or absolute path of a folder in Hadoop's spelling."""
    return spark_url(path_or_url) if "://" in path_or_url else f"file://{path_or_url}"
