"""The requests to Azure Blob Storage, by its own client; see `ServiceClient`. A tag is an ETag.

The credentials come from the variables that adlfs reads, too, which reaches a storage at the same URL: a connection
string, the key of the account, a signature (SAS), else Azure's default credential.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from azure.core import MatchConditions
from azure.storage.blob import ContainerClient, ContentSettings

from tenure.backends.azure.errors import failures
from tenure.backends.buckets import BucketPlace
from tenure.errors import UsageError

_CONNECTION: Final = "AZURE_STORAGE_CONNECTION_STRING"
_SECRETS: Final = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN")


class AzureClient:
    """The requests to one container."""

    def __init__(self, place: BucketPlace, request_s: float) -> None:
        self._client = _client(
            place,
            retry_total=0,
            connection_timeout=place.connect_s(request_s),
            read_timeout=request_s,
        )

    def get(self, key: str, *, unless: str | None) -> tuple[bytes, str]:
        condition = {} if unless is None else {"etag": unless, "match_condition": MatchConditions.IfModified}
        with failures():
            answer = self._client.download_blob(key, **condition)
            return answer.readall(), str(answer.properties.etag)

    def put(self, key: str, content: bytes, *, replaces: str | None) -> str:
        condition: dict[str, Any] = {"match_condition": MatchConditions.IfMissing}
        if replaces is not None:
            condition = {"etag": replaces, "match_condition": MatchConditions.IfNotModified}
        settings = ContentSettings(content_type="application/json", cache_control="no-store")
        with failures():
            blob = self._client.get_blob_client(key)
            return str(blob.upload_blob(content, overwrite=True, content_settings=settings, **condition)["etag"])

    def delete(self, key: str) -> None:
        with failures():
            self._client.delete_blob(key)

    def ages(self, prefix: str) -> Iterator[tuple[str, timedelta]]:
        dates: list[str] = []
        with failures():
            found = self._client.list_blobs(
                name_starts_with=prefix,
                raw_response_hook=lambda answer: dates.append(answer.http_response.headers["date"]),
            )
            for page in found.by_page():
                for one in page:
                    yield one.name, parsedate_to_datetime(dates[-1]) - one.last_modified

    def close(self) -> None:
        self._client.close()


def _client(place: BucketPlace, **options: Any) -> Any:
    """Azure's client for the place. Raises UsageError: the connection string cannot be used, or is of another
    account."""
    account = place.host.partition(".")[0]
    connection = os.environ.get(_CONNECTION)
    if connection:
        try:
            made = ContainerClient.from_connection_string(connection, place.bucket, **options)
        except ValueError as error:
            raise UsageError(f"{_CONNECTION} cannot be used: {error}", fix="copy it from the account") from error
        if made.account_name != account:
            raise UsageError(
                f"store {place.shown} is in account {account!r}, and {_CONNECTION} is of {made.account_name!r}",
                fix="set that of the account, or name the other account",
            )
        return made
    url = f"https://{place.host.replace('.dfs.', '.blob.', 1)}"
    secret: Any = next(filter(None, map(os.environ.get, _SECRETS)), None)
    if secret is None:
        from azure.identity import DefaultAzureCredential

        secret = DefaultAzureCredential()
    return ContainerClient(url, place.bucket, credential=secret, **options)
