"""The place in a bucket of S3 that a store URL names."""

from __future__ import annotations

import re
from typing import Final

from tenure.backends.buckets import BucketPlace, Service
from tenure.backends.s3.client import S3Client
from tenure.backends.shared.server_url import StoreUrl
from tenure.errors import UsageError

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}\Z")

S3: Final = Service(
    scheme="s3",
    name="S3",
    connect=S3Client,
    conditions=("If-None-Match", "If-Match"),
    rights="check the keys and the clock, and permit GetObject, PutObject, DeleteObject and ListBucket there",
    credentials="set the variables or a profile of AWS",
)


def place_of(url: StoreUrl) -> BucketPlace:
    """The place of `s3://BUCKET/PREFIX`. Raises UsageError."""
    if not _BUCKET.match(url.name):
        named = f"bucket {url.name!r}, which is no name of a bucket" if url.name else "no bucket"
        raise UsageError(f"store URL {url.shown!r} has {named}", fix="write s3://BUCKET/PREFIX")
    return BucketPlace.of(S3, url, url.name)
