"""Chooses the kind of a storage by its URL. No other module does.

Promise: no I/O. The client of a kind is imported when a URL of that kind is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tenure.errors import UsageError
from tenure.storage.hdfs import Hdfs
from tenure.storage.local import Local
from tenure.storage.remote import Remote
from tenure.storage.s3 import S3
from tenure.storage.storage import Storage
from tenure.wording import has_password, masked_url

_KINDS: Final[Mapping[str, type[Local | Remote]]] = {"file": Local, "local": Local, "s3": S3, "s3a": S3, "hdfs": Hdfs}


def reach(url: str, *, what: str = "storage") -> Storage:
    """The storage at a URL or a local path. `what`: the name of the URL in errors. Raises UsageError: no client knows
    the scheme, the client is not installed, or the URL has a password."""
    if has_password(url):
        raise UsageError(
            f"{what} {masked_url(url)!r} has a password, which lists of processes and records would show",
            fix="leave it out, and give it to the client of the storage by the environment or a file",
        )
    scheme, colon, _ = url.partition(":")
    kind = _KINDS.get(scheme) if colon else None
    return (kind or (Remote if "://" in url else Local))(url, what=what)
