"""The place in a bucket that a store URL names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tenure.backends.shared.server_url import StoreUrl
from tenure.errors import UsageError

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}\Z")
FOLDER: Final = ".tenure-store"
"""Holds the objects of the store. No scope has such a name, so storage at the same URL takes them for no files of its
own."""


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """Where a store is, and how long its requests may take. The endpoint is that of the variables and profiles of
    AWS."""

    bucket: str
    prefix: str = ""
    """Empty, or without a slash at its ends."""
    connect_timeout: timedelta = timedelta(seconds=5)
    request_timeout: timedelta = timedelta(seconds=5)

    def key(self, name: str) -> str:
        """The key of an object of the store."""
        return f"{self.prefix}/{FOLDER}/{name}" if self.prefix else f"{FOLDER}/{name}"

    @property
    def shown(self) -> str:
        """For messages."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def place_of(url: StoreUrl) -> BucketPlace:
    """The place of `s3://BUCKET/PREFIX`. Raises UsageError."""
    if not _BUCKET.match(url.name):
        named = f"bucket {url.name!r}, which is no name of a bucket" if url.name else "no bucket"
        raise UsageError(f"store URL {url.shown!r} has {named}", fix="write s3://BUCKET/PREFIX")
    return BucketPlace(
        url.name,
        url.path.strip("/"),
        connect_timeout=url.duration("connect_timeout", timedelta(seconds=5)),
        request_timeout=url.duration("request_timeout", timedelta(seconds=5)),
    )
