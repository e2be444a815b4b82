"""The place in a container of Azure Blob Storage that a store URL names."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult

from tenure.backends.azure.client import AzureClient
from tenure.backends.buckets import BucketPlace, Service
from tenure.backends.shared.server_url import StoreUrl
from tenure.errors import UsageError
from tenure.wording import masked_url

_CONTAINER: Final = re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}\Z")
_HOST: Final = re.compile(r"[a-z0-9]{3,24}\.dfs\.[a-z0-9.-]+\Z")

AZURE: Final = Service(
    scheme="abfss",
    name="Azure",
    connect=AzureClient,
    conditions=("If-None-Match", "If-Match"),
    rights="check the key and the clock, or give the account the role Storage Blob Data Contributor on the container",
    credentials="set AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT_KEY, or sign in with az login",
    bucket="container",
)


def place_of(url: SplitResult, *, options: set[str]) -> BucketPlace:
    """The place of `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX`, as Spark writes it: it names the account,
    so that two members cannot mean two. Raises UsageError."""
    user, _, host = url.netloc.rpartition("@")
    container = user.partition(":")[0]  # a password of TENURE_STORE_PASSWORD is of no use here
    if not _CONTAINER.match(container) or not _HOST.match(host):
        raise UsageError(
            f"store URL {masked_url(url.geturl())!r} does not name a container and an account",
            fix="write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX",
        )
    parts = StoreUrl(url._replace(netloc=host), port=None, options=options)
    return BucketPlace.of(AZURE, parts, container, host=host)
