"""Chooses the kind of a storage by its URL. No other module does.

Promise: no I/O. The client of a kind is imported when a URL of that kind is reached.
"""

from __future__ import annotations

from tenure.errors import UsageError
from tenure.storage.storage import Storage
from tenure.wording import has_password, masked_url


def reach(url: str, *, what: str = "storage") -> Storage:
    """The storage at a URL or a local path. `what`: the name of the URL in errors. Raises UsageError: no client knows
    the scheme, the client is not installed, or the URL has a password."""
    if has_password(url):
        raise UsageError(
            f"{what} {masked_url(url)!r} has a password, which lists of processes and records would show",
            fix="leave it out, and give it to the client of the storage by the environment or a file",
        )
    scheme, colon, _ = url.partition(":")
    # here alone, as fsspec costs time, and a command that looks at the store needs no storage
    match scheme if colon else "":
        case "s3" | "s3a":
            from tenure.storage.s3 import S3

            return S3(url, what=what)
        case "hdfs":
            from tenure.storage.hdfs import Hdfs

            return Hdfs(url, what=what)
        case other if other not in ("file", "local") and "://" in url:
            from tenure.storage.remote import Remote

            return Remote(url, what=what)
    from tenure.storage.local import Local

    return Local(url, what=what)
