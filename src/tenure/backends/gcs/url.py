"""The place in a bucket of Google Cloud Storage that a store URL names."""

from __future__ import annotations

import re
from typing import Final

from tenure.backends.buckets import BucketPlace, Service
from tenure.backends.gcs.client import GcsClient
from tenure.backends.shared.server_url import StoreUrl
from tenure.errors import UsageError

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]\Z")

GCS: Final = Service(
    scheme="gs",
    name="GCS",
    connect=GcsClient,
    conditions=("ifGenerationMatch=0", "ifGenerationMatch"),
    rights="give the account the role Storage Object User (roles/storage.objectUser) on the bucket",
    credentials="set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login",
)


def place_of(url: StoreUrl) -> BucketPlace:
    """The place of `gs://BUCKET/PREFIX`. Raises UsageError."""
    if not _BUCKET.match(url.name):
        named = f"bucket {url.name!r}, which is no name of a bucket" if url.name else "no bucket"
        raise UsageError(f"store URL {url.shown!r} has {named}", fix="write gs://BUCKET/PREFIX")
    return BucketPlace.of(GCS, url, url.name)
